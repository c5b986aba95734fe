package dialect

import (
	"slices"

	"gorun/launcher/hosts"
)

// setHostFile sets the host file of the job, or of a later program.
func (p *Line) setHostFile(a Arg) error { return keep(&p.current().hostFile)(a) }

// anyHostFile reports whether a program has a host file.
func anyHostFile(programs []programState) bool {
	return slices.ContainsFunc(programs, func(s programState) bool { return s.hostFile.From != "" })
}

// anyHosts reports whether a program has hosts.
func anyHosts(programs []programState) bool {
	hasList := func(s programState) bool { return len(s.hostLists) > 0 }
	return anyHostFile(programs) || slices.ContainsFunc(programs, hasList)
}

// hostsGiven reports whether options name hosts.
func (p *Line) hostsGiven() bool { return anyHosts(p.programs) }

// hostLists returns the lists of all programs.
func (p *Line) hostLists() (all []Arg) {
	for _, s := range p.programs {
		all = append(all, s.hostLists...)
	}
	return all
}

// hostsOfPrograms returns the hosts of all programs if later programs have host files: the one before the first
// program is then its own. Slots in lists are added up, as without files; of several files the largest number counts.
func (p *Line) hostsOfPrograms() (all []hosts.Host, ok bool) {
	read := make(map[string][]hosts.Host)
	ok = true
	var lists []hosts.Host
	for i := range p.programs {
		s := &p.programs[i]
		file := s.hostFile
		if _, known := read[file.Value]; !known {
			filed, fileOK := p.filedHosts(file)
			read[file.Value], ok = filed, ok && fileOK
		}
		listed, listOK := p.listedHosts(s.hostLists)
		own, chosen := p.chooseHosts(read[file.Value], listed)
		s.hosts, ok = own, ok && listOK && chosen
		all = widened(all, own)
		if file.From == "" {
			lists = append(lists, own...)
		}
	}
	return widened(all, hosts.Merge(lists)), ok
}

// widened adds hosts. The larger number of slots of each host counts.
func widened(all, more []hosts.Host) []hosts.Host {
	for _, h := range more {
		at := slices.IndexFunc(all, func(old hosts.Host) bool { return old.Name == h.Name })
		if at < 0 {
			all = append(all, h)
			continue
		}
		old := &all[at]
		old.Slots, old.MaxSlots = max(old.Slots, h.Slots), max(old.MaxSlots, h.MaxSlots)
		old.CoreSlots = old.CoreSlots || h.CoreSlots
	}
	return all
}

// resolveAppHosts gives programs the hosts of their own options. If only the first program has some, they hold for
// all, unless an allocation has more.
func (p *Line) resolveAppHosts() {
	firstAlone := p.someAppsOpen() && p.moreHosts
	if !firstAlone && !anyHosts(p.programs[1:]) {
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

// hostsOfProgram returns the hosts that a program's own options name, and these options. Their mistakes have been
// reported.
func (p *Line) hostsOfProgram(i int) (own []hosts.Host, from string) {
	s := p.programs[i]
	from = hostsFrom(p.programs[i : i+1])
	if anyHostFile(p.programs[1:]) {
		return s.hosts, from
	}
	for _, list := range s.hostLists {
		some, err := hosts.ParseList(list.Value, list.From)
		if err != nil {
			return nil, from
		}
		own = append(own, some...)
	}
	return hosts.Merge(own), from
}

// amongHosts returns those of a program's hosts that the job has, under the job's names.
func (p *Line) amongHosts(own []hosts.Host) (found []hosts.Host) {
	for _, h := range own {
		at := slices.IndexFunc(p.Spec.Hosts, func(host hosts.Host) bool {
			return host.Name == h.Name || host.Name == p.engineName(h.Name, p.Spec.Hosts) || host.Here && p.isHere(h.Name)
		})
		if at < 0 {
			continue
		}
		slots := h.Slots
		h = p.Spec.Hosts[at]
		h.Slots = slots
		found = append(found, h)
	}
	return hosts.Merge(found)
}
