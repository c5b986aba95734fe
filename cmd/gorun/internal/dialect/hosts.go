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
func (p *Line) finishHosts() {
	all, ok := p.namedHosts()
	if !ok {
		return
	}
	p.findEngine()
	if !p.hostsGiven() && p.mpi.defaultHosts.From != "" {
		p.programs[0].hostFile, p.mpi.defaultHosts = p.mpi.defaultHosts, Arg{}
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
	p.Spec.Hosts, p.Spec.HostsFrom = p.firstHosts(all, from), from
	p.checkMaxSlots(p.Spec.Hosts)
}

// someAppsOpen reports whether the lists of hosts are those of some programs alone, and the
// others have all that a resource manager gave. So Open MPI has it; of a host file its lists
// leave the same part for all programs.
func (p *Line) someAppsOpen() bool {
	without := func(of programGiven) bool { return len(of.hostLists) == 0 }
	return p.dialect.colons && len(p.programs) > 1 && slices.ContainsFunc(p.programs, without) &&
		!slices.ContainsFunc(p.hostLists(), func(a Arg) bool {
			return isVariable(a.From)
		})
}

// hostsGiven reports whether the hosts were named, or meant to be.
func (p *Line) hostsGiven() bool {
	return slices.ContainsFunc(p.programs, func(of programGiven) bool {
		return len(of.hostLists) > 0 || of.hostFile.From != ""
	})
}

// namedHosts are those of the lists and of the host file: of both, what the lists choose
// from the file.
func (p *Line) namedHosts() (all []hosts.Host, ok bool) {
	if p.ownHostFiles() {
		return p.hostsOfPrograms()
	}
	listed, ok := p.listedHosts(p.hostLists())
	filed, fileOK := p.filedHosts(p.programs[0].hostFile)
	if !ok || !fileOK {
		return nil, false
	}
	return p.chooseHosts(filed, listed)
}

// chooseHosts are those of a host file that lists name; without one of both, the other's.
func (p *Line) chooseHosts(filed, listed []hosts.Host) (all []hosts.Host, ok bool) {
	switch {
	case len(filed) == 0:
		return listed, true
	case len(listed) == 0:
		return filed, true
	}
	all, err := hosts.Select(filed, listed)
	if err != nil {
		p.Problem(err)
	}
	return all, err == nil
}

// listedHosts joins the lists of several -H options.
func (p *Line) listedHosts(lists []Arg) (all []hosts.Host, ok bool) {
	ok = true
	for _, list := range lists {
		found, err := hosts.ParseList(list.Value, list.From)
		if err != nil {
			p.Problem(err)
			ok = false
		}
		all = append(all, found...)
	}
	return hosts.Merge(all), ok
}

// filedHosts reads a host file, if there is one.
func (p *Line) filedHosts(a Arg) ([]hosts.Host, bool) {
	if a.From == "" {
		return nil, true
	}
	content, err := p.around.ReadFile(a.Value)
	if err != nil {
		p.problem("%s: %w", a.From, err)
		return nil, false
	}
	file, err := hosts.ParseFile(a.Value, string(content))
	for _, note := range file.Notes {
		p.hint(note)
	}
	if err != nil {
		p.Problem(err)
		return nil, false
	}
	if p.Verbose > 0 {
		p.Note(a.Value + ": the host file's dialect: " + file.Dialect)
	}
	return file.Hosts, true
}

// hostsFrom says in the user's words where the hosts came from.
func (p *Line) hostsFrom() string {
	from := ""
	for _, list := range p.hostLists() {
		from = joinWords(from, list.From)
	}
	for _, of := range p.programs {
		from = joinWords(from, of.hostFile.From)
	}
	return from
}

// isHere reports whether a name means this host.
func (p *Line) isHere(name string) bool {
	return hosts.Host{Name: name}.IsLoopback() || p.around.IsThisHost(name)
}

// mergeHere sums the names of this host, where the first of them stands.
func (p *Line) mergeHere(all []hosts.Host) []hosts.Host {
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
func (p *Line) exclude(all []hosts.Host, from string) []hosts.Host {
	for _, list := range p.excluded {
		names, err := hosts.Expand(list.Value)
		if err != nil {
			p.Problem(excludeError(list, err))
			continue
		}
		for i := range names {
			names[i] = p.engineName(names[i], all)
		}
		left, unknown := hosts.Exclude(all, names, p.around.IsThisHost)
		if len(unknown) > 0 && !isVariable(list.From) {
			p.problem("%s: %s: not among the hosts of %s", list.From, hosts.Fold(unknown), from)
		}
		if len(left) == 0 && len(all) > 0 {
			p.problem("%s leaves none of the hosts of %s", list.From, from)
			return all
		}
		all = left
	}
	return all
}

// excludeError says of DeepSpeed's lists of GPUs (host:0,1@host:2) what they are.
func excludeError(list Arg, err error) error {
	if strings.ContainsAny(list.Value, ":@") {
		return fmt.Errorf("%s: --exclude takes names of whole hosts and ranges of them, separated by commas: no GPUs, "+
			"which are chosen by --gpus, no users, no ports", list.From)
	}
	return fmt.Errorf("%s: %w", list.From, err)
}

// refuseExclude: without hosts there is nothing to leave out.
func (p *Line) refuseExclude() {
	for _, list := range p.excluded {
		if !p.hostsGiven() && !p.engine.hosts && !isVariable(list.From) {
			p.problem("%s leaves out hosts, and none were named: add -H or --hostfile", list.From)
		}
	}
}

// isVariable reports whether a value came from the environment.
func isVariable(from string) bool { return !strings.HasPrefix(from, "-") }

// firstHosts are as many as --nnodes says.
func (p *Line) firstHosts(all []hosts.Host, from string) []hosts.Host {
	switch wanted := p.Spec.NumNodes; {
	case p.standalone && len(all) > 1:
		p.problem("--standalone is one node, and %s names %d: keep one of them", from, len(all))
	case wanted > len(all):
		p.problem("%s: there are %d hosts in %s", p.nodesFrom, len(all), joinWords(from, p.excludedFrom()))
	case wanted > 0:
		return all[:wanted]
	}
	return all
}

func (p *Line) excludedFrom() (from string) {
	for _, list := range p.excluded {
		from = joinWords(from, list.From)
	}
	return from
}

// checkMaxSlots: slots are a wish, max-slots a limit.
func (p *Line) checkMaxSlots(all []hosts.Host) {
	wanted, limit, open := p.numRanks(), 0, false
	for _, h := range all {
		each := p.Spec.PerNode.N
		if wanted == 0 && h.MaxSlots > 0 && each > h.MaxSlots {
			p.problem("%d ranks are more than max-slots=%d of %s (%s)", each, h.MaxSlots, h.Name, h.From)
		}
		limit += h.MaxSlots
		open = open || h.MaxSlots == 0
	}
	switch {
	case open || wanted <= limit:
	case len(all) == 1:
		p.problem("%d ranks are more than max-slots=%d of %s (%s)", wanted, limit, all[0].Name, all[0].From)
	default:
		p.problem("%d ranks are more than the max-slots=%d of %s together (%s)", wanted, limit,
			hosts.Fold(hosts.Names(all)), p.hostsFrom())
	}
}

// setExclude adds to the hosts to leave out.
func (p *Line) setExclude(a Arg) error {
	if a.Value == "" {
		return errors.New("the value is empty")
	}
	p.excluded = append(p.excluded, a)
	return nil
}
