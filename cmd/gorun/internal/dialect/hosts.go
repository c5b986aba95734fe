package dialect

import (
	"fmt"

	"gorun/launcher/hosts"
)

// finishHosts reads the lists and the file of hosts. For now every host has to be
// this one, whatever name it goes by.
func (p *parser) finishHosts() {
	listed, ok := p.listedHosts()
	filed, fileOK := p.filedHosts()
	if !ok || !fileOK {
		return
	}
	all, from := listed, p.hostsFrom()
	switch {
	case len(filed) > 0 && len(listed) > 0:
		var err error
		if all, err = hosts.Select(filed, listed); err != nil {
			p.problem(err)
			return
		}
	case len(filed) > 0:
		all = filed
	case len(listed) == 0:
		return
	}
	if p.refuseOthers(all) {
		return
	}
	here := hosts.Sum(all)
	p.checkMaxSlots(here)
	p.inv.Spec.Hosts, p.inv.Spec.HostsFrom = []hosts.Host{here}, from
}

// listedHosts joins the lists of all -H options.
func (p *parser) listedHosts() (all []hosts.Host, ok bool) {
	ok = true
	for _, list := range p.hostLists {
		found, err := hosts.ParseList(list.value, list.from)
		if err != nil {
			p.problem(err)
			ok = false
		}
		all = append(all, found...)
	}
	return hosts.Merge(all), ok
}

// filedHosts reads the host file.
func (p *parser) filedHosts() ([]hosts.Host, bool) {
	if p.hostFile.from == "" {
		return nil, true
	}
	content, err := p.around.ReadFile(p.hostFile.value)
	if err != nil {
		p.problem(fmt.Errorf("%s: %w", p.hostFile.from, err))
		return nil, false
	}
	all, notes, err := hosts.ParseFile(p.hostFile.value, string(content))
	for _, note := range notes {
		p.note(note)
	}
	if err != nil {
		p.problem(err)
	}
	return all, err == nil
}

// hostsFrom says in the user's words where the hosts came from.
func (p *parser) hostsFrom() string {
	from := ""
	for _, list := range p.hostLists {
		from = joinWords(from, list.from)
	}
	return joinWords(from, p.hostFile.from)
}

// refuseOthers reports whether some host is not this one.
func (p *parser) refuseOthers(all []hosts.Host) (refused bool) {
	for _, h := range all {
		if h.IsLoopback() || p.around.IsThisHost(h.Name) {
			continue
		}
		p.problem(fmt.Errorf("%s: %s: not yet: other hosts come with SSH support; start gorun on %s itself, or use -H localhost:N", h.From, h.Name, h.Name))
		refused = true
	}
	return refused
}

// checkMaxSlots: slots are a wish, max-slots a limit.
func (p *parser) checkMaxSlots(here hosts.Host) {
	wanted := 0
	for _, app := range p.inv.Spec.Apps {
		wanted += app.NumRanks
	}
	if wanted == 0 {
		wanted = p.inv.Spec.PerNode.N
	}
	if here.MaxSlots > 0 && wanted > here.MaxSlots {
		p.problem(fmt.Errorf("%d ranks are more than max-slots=%d of %s (%s)", wanted, here.MaxSlots, here.Name, here.From))
	}
}
