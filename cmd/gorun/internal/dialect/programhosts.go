package dialect

import (
	"fmt"
	"slices"

	"gorun/launcher/hosts"
)

// setHostFile takes the host file of the job, or of a later program alone.
func (p *Line) setHostFile(a Arg) error {
	p.appFiles[len(p.appFiles)-1] = a
	if !p.later {
		p.hostFile = a
	}
	return text(new(string), a)
}

// ownHostFiles reports whether a later program has a host file of its own. The one before
// the first program is then that one's alone.
func (p *Line) ownHostFiles() bool {
	return slices.ContainsFunc(p.appFiles[min(1, len(p.appFiles)):], func(a Arg) bool { return a.From != "" })
}

// ownHosts reports whether a later program names hosts.
func (p *Line) ownHosts() bool {
	return p.ownHostFiles() || slices.ContainsFunc(p.appHosts[min(1, len(p.appHosts)):], func(lists []Arg) bool {
		return len(lists) > 0
	})
}

// hostsOfPrograms are the hosts of all programs, where some have host files of their own.
// What lists say of a host is summed up, as it is without files; of a host that several files
// have the largest number of slots counts.
func (p *Line) hostsOfPrograms() (all []hosts.Host, ok bool) {
	read := make(map[string][]hosts.Host)
	ok = true
	var lists []hosts.Host
	for i, file := range p.appFiles {
		if _, known := read[file.Value]; !known {
			filed, fileOK := p.filedHosts(file)
			read[file.Value], ok = filed, ok && fileOK
		}
		listed, listOK := p.listedHosts(p.appHosts[i])
		own, chosen := p.chooseHosts(read[file.Value], listed)
		p.appOwn, ok = append(p.appOwn, own), ok && listOK && chosen
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
			p.Problem(fmt.Errorf("%s: none of these hosts is left for %s", from, spec.Apps[i].Program))
		}
	}
}

// hostsOfProgram are those that a program's own options name, and these options. What is
// wrong with them was told before.
func (p *Line) hostsOfProgram(i int) (own []hosts.Host, from string) {
	for _, a := range append(slices.Clip(p.appHosts[i]), p.appFiles[i]) {
		from = joinWords(from, a.From)
	}
	if p.ownHostFiles() {
		if i < len(p.appOwn) {
			own = p.appOwn[i]
		}
		return own, from
	}
	for _, list := range p.appHosts[i] {
		some, err := hosts.ParseList(list.Value, list.From)
		if err != nil {
			return nil, from
		}
		own = append(own, some...)
	}
	return hosts.Merge(own), from
}
