package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
)

// finishHosts reads the lists and the file of hosts. The names of this host become
// one, to which nobody logs in.
func (p *parser) finishHosts() {
	all, ok := p.namedHosts()
	if !ok {
		return
	}
	p.findEngine()
	if p.hostFile.from == "" && len(p.hostLists) == 0 && p.mpi.defaultHosts.from != "" {
		p.hostFile, p.mpi.defaultHosts = p.mpi.defaultHosts, arg{}
		p.finishHosts()
		return
	}
	from := p.hostsFrom()
	if len(all) == 0 {
		p.engineHosts()
		p.refuseExclude()
		return
	}
	if p.chosenFromEngine(all, from) {
		return
	}
	all = p.exclude(p.mergeHere(all), from)
	all = p.withoutLocal(all, from)
	p.inv.Spec.Hosts, p.inv.Spec.HostsFrom = p.firstHosts(all, from), from
	p.checkMaxSlots(p.inv.Spec.Hosts)
}

// someAppsOpen reports whether the lists of hosts are those of some programs alone, and the
// others have all that a resource manager gave. So Open MPI has it; of a host file its lists
// leave the same part for all programs.
func (p *parser) someAppsOpen() bool {
	without := func(lists []arg) bool { return len(lists) == 0 }
	return p.dialect.colons && len(p.appHosts) > 1 && slices.ContainsFunc(p.appHosts, without) &&
		!slices.ContainsFunc(p.hostLists, func(a arg) bool {
			return isVariable(a.from)
		})
}

// hostsGiven reports whether the hosts were named, or meant to be.
func (p *parser) hostsGiven() bool {
	return len(p.hostLists) > 0 || p.hostFile.from != "" || p.ownHostFiles()
}

// namedHosts are those of the lists and of the host file: of both, what the lists choose
// from the file.
func (p *parser) namedHosts() (all []hosts.Host, ok bool) {
	if p.ownHostFiles() {
		return p.hostsOfPrograms()
	}
	listed, ok := p.listedHosts(p.hostLists)
	filed, fileOK := p.filedHosts(p.hostFile)
	if !ok || !fileOK {
		return nil, false
	}
	return p.chooseHosts(filed, listed)
}

// chooseHosts are those of a host file that lists name; without one of both, the other's.
func (p *parser) chooseHosts(filed, listed []hosts.Host) (all []hosts.Host, ok bool) {
	switch {
	case len(filed) == 0:
		return listed, true
	case len(listed) == 0:
		return filed, true
	}
	all, err := hosts.Select(filed, listed)
	if err != nil {
		p.problem(err)
	}
	return all, err == nil
}

// listedHosts joins the lists of several -H options.
func (p *parser) listedHosts(lists []arg) (all []hosts.Host, ok bool) {
	ok = true
	for _, list := range lists {
		found, err := hosts.ParseList(list.value, list.from)
		if err != nil {
			p.problem(err)
			ok = false
		}
		all = append(all, found...)
	}
	return hosts.Merge(all), ok
}

// filedHosts reads a host file, if there is one.
func (p *parser) filedHosts(a arg) ([]hosts.Host, bool) {
	if a.from == "" {
		return nil, true
	}
	content, err := p.around.ReadFile(a.value)
	if err != nil {
		p.problem(fmt.Errorf("%s: %w", a.from, err))
		return nil, false
	}
	file, err := hosts.ParseFile(a.value, string(content))
	for _, note := range file.Notes {
		p.hint(note)
	}
	if err != nil {
		p.problem(err)
		return nil, false
	}
	if p.inv.Verbose > 0 {
		p.note(a.value + ": the host file's dialect: " + file.Dialect)
	}
	return file.Hosts, true
}

// hostsFrom says in the user's words where the hosts came from.
func (p *parser) hostsFrom() string {
	from := ""
	for _, list := range p.hostLists {
		from = joinWords(from, list.from)
	}
	if !p.ownHostFiles() {
		return joinWords(from, p.hostFile.from)
	}
	for _, file := range p.appFiles {
		from = joinWords(from, file.from)
	}
	return from
}

// isHere reports whether a name means this host.
func (p *parser) isHere(name string) bool {
	return hosts.Host{Name: name}.IsLoopback() || p.around.IsThisHost(name)
}

// mergeHere sums the names of this host, where the first of them stands.
func (p *parser) mergeHere(all []hosts.Host) []hosts.Host {
	var here []hosts.Host
	at := 0
	merged := make([]hosts.Host, 0, len(all))
	for _, h := range all {
		if !p.isHere(h.Name) {
			merged = append(merged, h)
			continue
		}
		if h.User != "" || h.Port != 0 {
			p.hint(fmt.Sprintf("%s: %s is this host, to which nobody logs in: its user and port do not count", h.From, h.Name))
		}
		if here = append(here, h); len(here) == 1 {
			at = len(merged)
		}
	}
	if here == nil {
		return merged
	}
	sum := hosts.Sum(here)
	sum.Here, sum.User, sum.Port = true, "", 0
	return slices.Insert(merged, at, sum)
}

// exclude leaves out what --exclude names. Who types a name that is not there
// learns of it; a variable may name the broken hosts of a whole site.
func (p *parser) exclude(all []hosts.Host, from string) []hosts.Host {
	for _, list := range p.excluded {
		names, err := hosts.Expand(list.value)
		if err != nil {
			p.problem(excludeError(list, err))
			continue
		}
		for i := range names {
			names[i] = p.engineName(names[i], all)
		}
		left, unknown := hosts.Exclude(all, names, p.around.IsThisHost)
		if len(unknown) > 0 && !isVariable(list.from) {
			p.problem(fmt.Errorf("%s: %s: not among the hosts of %s", list.from, hosts.Fold(unknown), from))
		}
		if len(left) == 0 && len(all) > 0 {
			p.problem(fmt.Errorf("%s leaves none of the hosts of %s", list.from, from))
			return all
		}
		all = left
	}
	return all
}

// excludeError says of DeepSpeed's lists of GPUs (host:0,1@host:2) what they are.
func excludeError(list arg, err error) error {
	if strings.ContainsAny(list.value, ":@") {
		return fmt.Errorf("%s: --exclude takes names of whole hosts and ranges of them, separated by commas: no GPUs, "+
			"which are chosen by --gpus, no users, no ports", list.from)
	}
	return fmt.Errorf("%s: %w", list.from, err)
}

// refuseExclude: without hosts there is nothing to leave out.
func (p *parser) refuseExclude() {
	for _, list := range p.excluded {
		if !p.hostsGiven() && !p.engine.hosts && !isVariable(list.from) {
			p.problem(fmt.Errorf("%s leaves out hosts, and none were named: add -H or --hostfile", list.from))
		}
	}
}

// isVariable reports whether a value came from the environment.
func isVariable(from string) bool { return !strings.HasPrefix(from, "-") }

// firstHosts are as many as --nnodes says.
func (p *parser) firstHosts(all []hosts.Host, from string) []hosts.Host {
	switch wanted := p.inv.Spec.NumNodes; {
	case p.standalone && len(all) > 1:
		p.problem(fmt.Errorf("--standalone is one node, and %s names %d: keep one of them", from, len(all)))
	case wanted > len(all):
		p.problem(fmt.Errorf("%s: there are %d hosts in %s", p.nodesFrom, len(all), joinWords(from, p.excludedFrom())))
	case wanted > 0:
		return all[:wanted]
	}
	return all
}

func (p *parser) excludedFrom() (from string) {
	for _, list := range p.excluded {
		from = joinWords(from, list.from)
	}
	return from
}

// checkMaxSlots: slots are a wish, max-slots a limit.
func (p *parser) checkMaxSlots(all []hosts.Host) {
	wanted, limit := 0, 0
	for _, app := range p.inv.Spec.Apps {
		wanted += app.NumRanks
	}
	open := false
	for _, h := range all {
		each := p.inv.Spec.PerNode.N
		if wanted == 0 && h.MaxSlots > 0 && each > h.MaxSlots {
			p.problem(fmt.Errorf("%d ranks are more than max-slots=%d of %s (%s)", each, h.MaxSlots, h.Name, h.From))
		}
		limit += h.MaxSlots
		open = open || h.MaxSlots == 0
	}
	switch {
	case open || wanted <= limit:
	case len(all) == 1:
		p.problem(fmt.Errorf("%d ranks are more than max-slots=%d of %s (%s)", wanted, limit, all[0].Name, all[0].From))
	default:
		p.problem(fmt.Errorf("%d ranks are more than the max-slots=%d of %s together (%s)", wanted, limit,
			hosts.Fold(hosts.Names(all)), p.hostsFrom()))
	}
}

// setExclude adds to the hosts to leave out.
func (p *parser) setExclude(a arg) error {
	if a.value == "" {
		return errors.New("the value is empty")
	}
	p.excluded = append(p.excluded, a)
	return nil
}
