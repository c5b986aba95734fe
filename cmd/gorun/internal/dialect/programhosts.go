package dialect

import (
	"slices"

	"gorun/launcher/hosts"
)

// setHostFile takes the host file of the job, or of a later program alone.
func (p *Line) setHostFile(a Arg) error { return given(&p.programs[len(p.programs)-1].hostFile)(a) }

// ownHostFiles reports whether a later program has a host file of its own. The one before
// the first program is then that one's alone.
func (p *Line) ownHostFiles() bool {
	return slices.ContainsFunc(p.programs[1:], func(of programGiven) bool { return of.hostFile.From != "" })
}

// ownHosts reports whether a later program names hosts.
func (p *Line) ownHosts() bool {
	return p.ownHostFiles() || slices.ContainsFunc(p.programs[1:], func(of programGiven) bool {
		return len(of.hostLists) > 0
	})
}

// hostLists are those of all programs.
func (p *Line) hostLists() (all []Arg) {
	for _, of := range p.programs {
		all = append(all, of.hostLists...)
	}
	return all
}

// hostsOfPrograms are the hosts of all programs, where some have host files of their own.
// What lists say of a host is summed up, as it is without files; of a host that several files
// have the largest number of slots counts.
func (p *Line) hostsOfPrograms() (all []hosts.Host, ok bool) {
	read := make(map[string][]hosts.Host)
	ok = true
	var lists []hosts.Host
	for i := range p.programs {
		of := &p.programs[i]
		file := of.hostFile
		if _, known := read[file.Value]; !known {
			filed, fileOK := p.filedHosts(file)
			read[file.Value], ok = filed, ok && fileOK
		}
		listed, listOK := p.listedHosts(of.hostLists)
		own, chosen := p.chooseHosts(read[file.Value], listed)
		of.hosts, ok = own, ok && listOK && chosen
		all = widened(all, own)
		if file.From == "" {
			lists = append(lists, own...)
		}
	}
	return widened(all, hosts.Merge(lists)), ok
}

// widened adds hosts to others; of a host that is in both the larger number of slots counts.
func widened(all, more []hosts.Host) []hosts.Host {
	for _, h := range more {
		at := slices.IndexFunc(all, func(of hosts.Host) bool { return of.Name == h.Name })
		if at < 0 {
			all = append(all, h)
			continue
		}
		of := &all[at]
		of.Slots, of.MaxSlots, of.CoreSlots = max(of.Slots, h.Slots), max(of.MaxSlots, h.MaxSlots), of.CoreSlots ||
			h.CoreSlots
	}
	return all
}

// finishAppHosts gives programs the hosts that their own options name. Where only those
// before the first program name some, they hold for all, unless a resource manager gave more.
func (p *Line) finishAppHosts() {
	firstAlone := p.someAppsOpen() && p.mpi.moreHosts
	if !firstAlone && !p.ownHosts() {
		return
	}
	spec := &p.Spec
	for i := range spec.Apps {
		own, from := p.hostsOfProgram(i)
		spec.Apps[i].Hosts = p.amongHosts(own)
		if len(own) > 0 && len(spec.Apps[i].Hosts) == 0 && len(spec.Hosts) > 0 {
			p.problem("%s: none of these hosts is left for %s", from, spec.Apps[i].Program)
		}
	}
}

// hostsOfProgram are those that a program's own options name, and these options. What is
// wrong with them was told before.
func (p *Line) hostsOfProgram(i int) (own []hosts.Host, from string) {
	given := p.programs[i]
	for _, a := range append(slices.Clip(given.hostLists), given.hostFile) {
		from = joinWords(from, a.From)
	}
	if p.ownHostFiles() {
		return given.hosts, from
	}
	for _, list := range given.hostLists {
		some, err := hosts.ParseList(list.Value, list.From)
		if err != nil {
			return nil, from
		}
		own = append(own, some...)
	}
	return hosts.Merge(own), from
}
