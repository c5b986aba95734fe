package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
	"gorun/placement"
)

// place returns the placement spec that options of the current program set. A later program gets its own with the
// first such option.
func (p *Line) place() *job.PlacementSpec {
	whole := &p.Spec.Place
	if !p.later {
		return whole
	}
	if p.app.Place == nil {
		p.app.Place = &job.PlacementSpec{
			Request: placement.Request{GPUs: whole.GPUs, Isolate: whole.Isolate},
			Memory:  whole.Memory, Report: whole.Report,
		}
	}
	return p.app.Place
}

// places returns the placement specs of the job and of its programs.
func (p *Line) places() []*job.PlacementSpec {
	all := []*job.PlacementSpec{&p.Spec.Place}
	for _, app := range p.Spec.Apps {
		if app.Place != nil {
			all = append(all, app.Place)
		}
	}
	return all
}

// placed parses a value of an option. It removes the option's name from errors, which the caller adds.
func placed[T any](option string, a Arg, parse func(string) (T, error)) (T, error) {
	value, err := parse(a.Value)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), option+" "+a.Value)
		err = errors.New(strings.TrimPrefix(strings.TrimPrefix(text, option), ": "))
	}
	return value, err
}

// setMapBy sets the mapping, under any option's name.
func (p *Line) setMapBy(a Arg) error {
	value, err := p.mapModifiers(a)
	if err != nil || value == "" {
		return err
	}
	was := p.place().MapBy
	m, err := placed("--map-by", Arg{Value: value}, placement.ParseMapBy)
	if err != nil {
		return err
	}
	m.From, m.Threads = a.From, was.Threads
	p.overrideMapping(&m)
	switch {
	case was.Object != placement.AnyObject && m.Object == placement.AnyObject: // modifiers alone
		was.Oversubscribe = was.Oversubscribe || m.Oversubscribe
		was.NoOversubscribe = was.NoOversubscribe || m.NoOversubscribe
		was.Span = was.Span || m.Span
		p.place().MapBy = was
		return nil
	case p.contradicts(a, was.From, was.Object != placement.AnyObject && (was.Object != m.Object || was.PPR != m.PPR)):
		return fmt.Errorf("contradicts %s", was.From)
	}
	m.Oversubscribe, m.NoOversubscribe = m.Oversubscribe || was.Oversubscribe && !m.NoOversubscribe,
		m.NoOversubscribe || was.NoOversubscribe && !m.Oversubscribe
	p.place().MapBy = m
	return nil
}

// overrideMapping drops from a mapping what a stronger source has set with another option, and marks the rest as set.
func (p *Line) overrideMapping(m *placement.MapBy) {
	was := p.place().MapBy
	if p.isSet(familyPE) || m.PE == 0 {
		m.PE = was.PE
	} else {
		p.markSet(familyPE)
	}
	switch {
	case !m.Oversubscribe && !m.NoOversubscribe:
	case p.isSet(familyOversubscribe):
		m.Oversubscribe, m.NoOversubscribe = false, false
	default:
		p.markSet(familyOversubscribe)
	}
	small := m.Object == placement.ByCore || m.Object == placement.ByThread && m.PPR == 0
	if small && m.PE > 1 && p.isSet(familyPE) { // a variable's mapping to cores, and a larger PE on the command line
		m.Object, m.From = placement.AnyObject, was.From
	}
}

// contradicts reports whether two options with different names on the command line differ. Of the same option the
// last one wins.
func (p *Line) contradicts(a Arg, was string, differs bool) bool {
	name := func(from string) string {
		word, _, _ := strings.Cut(from, " ")
		word, _, _ = strings.Cut(word, "=")
		return strings.TrimLeft(word, "-")
	}
	return differs && !p.FromVariable() && strings.HasPrefix(was, "-") && name(was) != name(a.From)
}

// mapModifiers applies Open MPI 5's modifiers that are not about the mapping, and returns the rest. A board is a host.
func (p *Line) mapModifiers(a Arg) (rest string, err error) {
	fields := strings.Split(a.Value, ":")
	object, within, _ := strings.Cut(strings.ToLower(fields[0]), ",")
	if within == "core" { // Hydra: the cores of one object after the other
		fields[0] = object
	}
	switch lower := strings.ToLower(fields[0]); {
	case lower == "board", lower == "machine", lower == "rr" && p.dialect.slots == slotsOfHydra:
		fields[0] = "slot"
	case deviceKind(lower) == "nic" && lower != "nic":
		return "", errors.New("use --map-by nic, or --map-by dist:NAME for the NUMA nodes in the order of their distance " +
			"to one")
	case lower == "gpu" && len(fields) == 2 && isNumber(fields[1]):
		return "", fmt.Errorf("use --map-by gpu --gpus-per-rank %s", fields[1])
	case deviceKind(lower) == "gpu" && lower != "gpu":
		return "", fmt.Errorf("use --map-by gpu --gpus %s", lower[len("gpu"):])
	case lower == "seq", strings.HasPrefix(lower, "pe-list="):
		return "", errors.New("use --rankfile FILE, whose lines such as rank 0=node1 slot=0-3 say where each rank is")
	case lower == "rankfile" && len(fields) == 1 && p.place().RankFile != nil:
		return "", nil
	}
	if strings.EqualFold(fields[0], "ppr") && len(fields) > 2 && strings.EqualFold(fields[2], "board") {
		fields[2] = "node"
	}
	left := fields[:1]
	for _, field := range fields[1:] {
		lower := strings.ToLower(field)
		switch file, isFile := strings.CutPrefix(lower, "file="); {
		case isFile && strings.EqualFold(fields[0], "rankfile"):
			p.markSet(familyRankFile)
			return "", p.setRankFile(Arg{Value: field[len(field)-len(file):], From: a.From})
		case lower == "nolocal":
			p.nolocalFrom = a.From
		case lower == "donotlaunch":
			p.DryRun = true
		case lower == "display", lower == "displaydevel":
			p.Display.Map = true
		case lower == "hwtcpus":
			p.useThreads(a)
		case lower == "corecpus", lower == "inherit", lower == "noinherit", lower == "ordered":
			p.idle = append(p.idle, a.From+": "+lower+
				" is left out: gorun counts cores, and hardware threads where ranks are mapped to those or hwtcpus is there")
		default:
			left = append(left, field)
		}
	}
	return strings.Join(left, ":"), nil
}

// setPE sets the number of cores of each rank.
func (p *Line) setPE(a Arg) error {
	n, err := ParseRanks(a.Value)
	m := &p.place().MapBy
	switch {
	case err != nil:
		return err
	case m.PE > 0 && m.PE != n:
		return fmt.Errorf("contradicts %s", m.From)
	}
	m.PE, m.From = n, cmp.Or(m.From, a.From)
	return nil
}

func (p *Line) setThreads(a Arg) error {
	if a.On {
		p.useThreads(a)
	}
	return nil
}

// useThreads counts hardware threads where Open MPI counts cores.
func (p *Line) useThreads(a Arg) {
	p.threadsFrom = a.From
	p.place().MapBy.Threads = true
}

// setBindTo sets the binding, as Open MPI or Hydra spells it.
func (p *Line) setBindTo(a Arg) error {
	value := a.Value
	switch lower := strings.ToLower(value); {
	case lower == "rr": // Hydra: one CPU after the other
		value = "core"
	case lower == "cpu-list", lower == "cpu-list:ordered":
		p.orderedCPUs = optionValue[bool]{lower != "cpu-list", a.From}
		return nil
	case deviceKind(lower) != "":
		return fmt.Errorf("gorun binds ranks to CPUs near a device: use --map-by %s", deviceKind(lower))
	}
	b, err := placed("--bind-to", Arg{Value: value}, placement.ParseBindTo)
	if err != nil {
		return err
	}
	b.From = a.From
	was := p.place().BindTo
	if p.contradicts(a, was.From, was.Given && b.Given && was.Object != b.Object) {
		return fmt.Errorf("contradicts %s", was.From)
	}
	p.place().BindTo = b
	return nil
}

// parseCPUs parses a CPU list that is not empty.
func parseCPUs(value string) (placement.CPUSet, error) {
	set, err := placement.ParseCPUSet(value)
	if err == nil && set.Len() == 0 {
		err = errors.New("the list is empty")
	}
	return set, err
}

func (p *Line) setRankBy(a Arg) (err error) {
	p.place().RankBy, err = placed("--rank-by", a, placement.ParseRankBy)
	p.place().RankBy.From = a.From
	return err
}

func (p *Line) setGPUs(a Arg) (err error) {
	p.place().GPUs, err = placed("--gpus", a, placement.ParseGPUs)
	p.place().GPUs.From = a.From
	return err
}

func (p *Line) setNUMABinding(a Arg) (err error) {
	p.place().NUMABinding, err = placed("--numa-binding", a, placement.ParseNUMABinding)
	return err
}

func (p *Line) setCPUsPerRank(a Arg) error { return Parsed(&p.place().CPUsPerRank, ParseRanks)(a) }

func (p *Line) setGPUsPerRank(a Arg) error { return Parsed(&p.place().GPUsPerRank, ParseRanks)(a) }

// setRankFile reads the file at once: its mistakes are the command line's.
func (p *Line) setRankFile(a Arg) error {
	text, err := p.around.ReadFile(a.Value)
	if err != nil {
		return err
	}
	p.place().RankFile, err = placement.ParseRankFile(a.From, string(text))
	if err != nil {
		return errors.New(strings.TrimLeft(strings.TrimPrefix(err.Error(), a.From), ": "))
	}
	return nil
}

// resolvePlacement completes mappings and bindings. As in Open MPI, pe=N alone maps by NUMA node, and a CPU list
// overrides other bindings.
func (p *Line) resolvePlacement() {
	for _, place := range p.places() {
		m := &place.MapBy
		if m.PE > 0 && m.Object == placement.AnyObject {
			m.Object = placement.ByNUMA
		}
		if m.Object == placement.ByDistance {
			m.Device = cmp.Or(m.Device, p.distDevice)
		}
	}
	cpus, ordered := p.cpus, p.orderedCPUs
	if cpus.from == "" {
		if ordered.from != "" {
			p.problem("%s needs the CPUs: add --cpu-list LIST", ordered.from)
		}
		return
	}
	bind := placement.BindTo{Given: true, Lists: []placement.CPUSet{cpus.value}, From: cpus.from}
	if ordered.value {
		bind.Lists = nil
		for cpu := range cpus.value.All() {
			bind.Lists = append(bind.Lists, placement.NewCPUSet(cpu))
		}
	}
	for _, place := range p.places() {
		place.BindTo = bind
	}
}
