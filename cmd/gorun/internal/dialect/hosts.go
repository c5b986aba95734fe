package dialect

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/launcher/hosts"
)

// resolveHosts reads the lists and files of hosts. All names of this host become one host, without a login.
func (p *Line) resolveHosts() {
	p.resolveReach()
	if !p.hostsGiven() && p.defaultHostFile.From != "" {
		p.findEngine()
		p.programs[0].hostFile = p.defaultHostFile
	}
	all, ok := p.namedHosts()
	if !ok {
		return
	}
	p.findEngine()
	from := hostsFrom(p.programs)
	if len(all) == 0 {
		p.useAllocation()
		p.checkExcluded()
		return
	}
	if p.chooseFromEngine(all, from) {
		return
	}
	all = p.exclude(p.mergeHere(all), from)
	all = p.withoutLocal(all, from)
	p.Spec.Hosts, p.Spec.HostsFrom = p.firstHosts(all, from), from
	p.checkMaxSlots(p.Spec.Hosts)
}

// someAppsOpen reports whether the lists of hosts belong to some programs alone, and the others get the whole
// allocation, as in Open MPI.
func (p *Line) someAppsOpen() bool {
	hasNoList := func(s programState) bool { return len(s.hostLists) == 0 }
	return p.dialect.colons && len(p.programs) > 1 && slices.ContainsFunc(p.programs, hasNoList) &&
		!slices.ContainsFunc(p.hostLists(), func(a Arg) bool { return isVariable(a.From) })
}

// namedHosts returns the hosts of lists and of the host file. With both, the lists choose from the file.
func (p *Line) namedHosts() (all []hosts.Host, ok bool) {
	if anyHostFile(p.programs[1:]) {
		return p.hostsOfPrograms()
	}
	listed, ok := p.listedHosts(p.hostLists())
	filed, fileOK := p.filedHosts(p.programs[0].hostFile)
	if !ok || !fileOK {
		return nil, false
	}
	return p.chooseHosts(filed, listed)
}

// chooseHosts returns the hosts of a host file that lists name, or all of one if the other is empty.
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

// listedHosts joins several lists.
func (p *Line) listedHosts(lists []Arg) (all []hosts.Host, ok bool) {
	ok = true
	for _, list := range lists {
		if file, _, _ := strings.Cut(list.Value, ":"); p.isHostFile(file) {
			p.problem("%s: a file, not a host: use `--hostfile %s`", list.From, shellwords.Quote(file))
			ok = false
			continue
		}
		found, err := hosts.ParseList(list.Value, list.From)
		if err != nil {
			p.Problem(err)
			ok = false
		}
		all = append(all, found...)
	}
	return hosts.Merge(all), ok
}

// isHostFile reports whether the value of -H is the name of a file, and of no host.
func (p *Line) isHostFile(value string) bool {
	if !strings.ContainsAny(value, "./") && value != "hosts" && !strings.HasSuffix(value, "file") {
		return false // a file may have the name of a host
	}
	_, err := p.around.ReadFile(value)
	return err == nil && (strings.Contains(value, "/") || p.around.IsUnknown == nil || p.around.IsUnknown(value))
}

// filedHosts reads a host file, if a names one.
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
		p.hint("%s", note)
	}
	if err != nil {
		p.Problem(err)
		return nil, false
	}
	p.verbose("%s: the host file's dialect: %s", a.Value, file.Dialect)
	return file.Hosts, true
}

// hostsFrom returns the sources of the programs' hosts.
func hostsFrom(programs []programState) string {
	var lists, files []string
	for _, s := range programs {
		for _, list := range s.hostLists {
			lists = append(lists, list.From)
		}
		files = append(files, s.hostFile.From)
	}
	return joinWords(append(lists, files...)...)
}

// isHere reports whether a name means this host.
func (p *Line) isHere(name string) bool {
	return hosts.Host{Name: name}.IsLoopback() || p.around.IsThisHost(name)
}

// mergeHere merges the names of this host into the first of them.
func (p *Line) mergeHere(all []hosts.Host) []hosts.Host {
	var here, merged []hosts.Host
	at := 0
	for _, h := range all {
		if !p.isHere(h.Name) {
			merged = append(merged, h)
			continue
		}
		if h.User != "" || h.Port != 0 {
			p.hint("%s: %s is this host, which needs no login: its user and port are ignored", h.From, h.Name)
		}
		if here = append(here, h); len(here) == 1 {
			at = len(merged)
		}
	}
	if here == nil {
		return merged
	}
	sum := hosts.Sum(here)
	if names := slices.Compact(hosts.Names(here)); len(names) > 1 {
		p.hint("%s are the same machine: their slots add up to %d", enumerate(names, "and"), sum.Slots)
	}
	sum.Here, sum.User, sum.Port = true, "", 0
	return slices.Insert(merged, at, sum)
}

// exclude removes the hosts of --exclude. Unknown names are a problem on the command line, but not in a variable,
// which may name the broken hosts of a whole site.
func (p *Line) exclude(all []hosts.Host, from string) []hosts.Host {
	for _, list := range p.excluded {
		names, err := hosts.Expand(list.Value)
		if err != nil {
			if strings.ContainsAny(list.Value, ":@") { // DeepSpeed's host:0,1@host:2
				err = errors.New("--exclude takes names of whole hosts and ranges of them, separated by commas: no GPUs, " +
					"which are chosen by --gpus, no users, no ports")
			}
			p.problem("%s: %w", list.From, err)
			continue
		}
		for i := range names {
			names[i] = p.engineName(names[i], all)
		}
		left, unknown := hosts.Exclude(all, names, p.around.IsThisHost)
		if len(unknown) > 0 && !isVariable(list.From) {
			p.problem("%s: %s: not among the hosts of %s", list.From, hosts.NodeList(unknown), from)
		}
		if len(left) == 0 && len(all) > 0 {
			p.problem("%s leaves none of the hosts of %s", list.From, from)
			return all
		}
		all = left
	}
	return all
}

// checkExcluded refuses --exclude without hosts.
func (p *Line) checkExcluded() {
	for _, list := range p.excluded {
		if !p.HasHosts() && !isVariable(list.From) {
			p.problem("%s leaves out hosts, and none were named: add -H or --hostfile", list.From)
		}
	}
}

// isVariable reports whether a source is a variable.
func isVariable(from string) bool { return !strings.HasPrefix(from, "-") }

// firstHosts returns the first --nnodes hosts.
func (p *Line) firstHosts(all []hosts.Host, from string) []hosts.Host {
	if p.MayLoseNodes() {
		spec := &p.Spec
		spec.MinNodes = cmp.Or(spec.MinNodes, spec.NumNodes, len(all)-p.spares)
		spec.NumNodes = min(cmp.Or(spec.NumNodes, len(all)), len(all)-p.spares)
		if spec.NumNodes < spec.MinNodes || spec.MinNodes < 1 {
			p.problem("%s: it takes %d hosts; %s names %d", p.elasticFrom,
				max(1, spec.MinNodes)+p.spares, from, len(all))
		}
		return all
	}
	switch wanted := p.Spec.NumNodes; {
	case p.standalone && len(all) > 1:
		p.problem("--standalone is one node, and %s names %d: keep one of them", from, len(all))
	case wanted > len(all):
		for _, list := range p.excluded {
			from = joinWords(from, list.From)
		}
		p.problem("%s: there are %d hosts in %s", p.nodesFrom, len(all), from)
	case wanted > 0:
		return all[:wanted]
	}
	return all
}

// checkMaxSlots refuses more ranks than max-slots in host files allow.
func (p *Line) checkMaxSlots(all []hosts.Host) {
	wanted, limit, unlimited := p.numRanks(), 0, false
	for _, h := range all {
		each := p.Spec.PerNode.N
		if wanted == 0 && h.MaxSlots > 0 && each > h.MaxSlots {
			p.problem("%d ranks are more than max-slots=%d of %s (%s)", each, h.MaxSlots, h.Name, h.From)
		}
		limit += h.MaxSlots
		unlimited = unlimited || h.MaxSlots == 0
	}
	switch {
	case unlimited || wanted <= limit:
	case len(all) == 1:
		p.problem("%d ranks are more than max-slots=%d of %s (%s)", wanted, limit, all[0].Name, all[0].From)
	default:
		p.problem("%d ranks are more than the max-slots=%d of %s together (%s)", wanted, limit,
			hosts.NodeList(hosts.Names(all)), hostsFrom(p.programs))
	}
}
