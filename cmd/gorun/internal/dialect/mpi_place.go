package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gorun/launcher/job"
	"gorun/placement"
)

// setMapBy takes a mapping, whatever the option is called. Modifiers that Open MPI 5 has
// for other things than the mapping are done here.
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
	p.settleMapping(&m)
	switch {
	case was.Object != placement.AnyObject && m.Object == placement.AnyObject: // modifiers alone
		was.Oversubscribe, was.NoOversubscribe, was.Span = was.Oversubscribe || m.Oversubscribe, was.NoOversubscribe ||
			m.NoOversubscribe, was.Span || m.Span
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

// settleMapping leaves to a mapping what no stronger source has said in another way, and
// has it answer what it says beside the object.
func (p *Line) settleMapping(m *placement.MapBy) {
	was := p.place().MapBy
	if p.answered(familyPE) || m.PE == 0 {
		m.PE = was.PE
	} else {
		p.answers(familyPE)
	}
	if m.Oversubscribe || m.NoOversubscribe {
		if p.answered(familyOversubscribe) {
			m.Oversubscribe, m.NoOversubscribe = false, false
		} else {
			p.answers(familyOversubscribe)
		}
	}
	if small := m.Object == placement.ByCore || m.Object == placement.ByThread && m.PPR == 0; small && m.PE > 1 &&
		p.answered(familyPE) {
		m.Object, m.From = placement.AnyObject, was.From // a variable's, which has no room for what was typed
	}
}

// contradicts reports whether two options of different names, both typed, say different
// things. Of one that is repeated the last counts.
func (p *Line) contradicts(a Arg, was string, differs bool) bool {
	name := func(from string) string {
		word, _, _ := strings.Cut(from, " ")
		word, _, _ = strings.Cut(word, "=")
		return strings.TrimLeft(word, "-")
	}
	return differs && p.level == levelFlags && strings.HasPrefix(was, "-") && name(was) != name(a.From)
}

// mapModifiers does what Open MPI 5 writes behind an object and is no mapping, and leaves
// the rest. A board is all of a host.
func (p *Line) mapModifiers(a Arg) (rest string, err error) {
	fields := strings.Split(a.Value, ":")
	object, within, _ := strings.Cut(strings.ToLower(fields[0]), ",")
	if within == "core" { // Hydra: the cores of one such after the other
		fields[0] = object
	}
	switch lower := strings.ToLower(fields[0]); {
	case lower == "board", lower == "machine", lower == "rr" && p.dialect.slots == slotsOfHydra:
		fields[0] = "slot"
	case deviceWord(lower) == "nic" && lower != "nic":
		return "", errors.New("use --map-by nic, or --map-by dist:NAME for the NUMA nodes in the order of their distance " +
			"to one")
	case lower == "gpu" && len(fields) == 2 && isNumber(fields[1]):
		return "", fmt.Errorf("use --map-by gpu --gpus-per-rank %s", fields[1])
	case deviceWord(lower) == "gpu" && lower != "gpu":
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
			p.answers(familyRankFile)
			return "", p.setRankFile(Arg{Value: field[len(field)-len(file):], From: a.From})
		case lower == "nolocal":
			p.mpi.nolocal = a
		case lower == "donotlaunch":
			p.DryRun = true
		case lower == "display", lower == "displaydevel":
			p.Display.Map = true
		case lower == "hwtcpus":
			a.On = true
			if err := p.setThreads(a); err != nil {
				return "", err
			}
		case lower == "corecpus", lower == "inherit", lower == "noinherit", lower == "ordered":
			p.mpi.idle = append(p.mpi.idle, a.From+": "+lower+
				" is left out: gorun counts cores, and hardware threads where ranks are mapped to those or hwtcpus is there")
		default:
			left = append(left, field)
		}
	}
	if len(left) == 1 && left[0] == "" && a.Value != "" {
		return "", nil
	}
	return strings.Join(left, ":"), nil
}

// setPE takes the number of cores of each rank.
func (p *Line) setPE(a Arg) error {
	var n int
	if err := parseEach(&n, a); err != nil {
		return err
	}
	m := &p.place().MapBy
	if m.PE > 0 && m.PE != n {
		return fmt.Errorf("contradicts %s", m.From)
	}
	m.PE = n
	if m.From == "" {
		m.From = a.From
	}
	return nil
}

// setThreads has hardware threads counted where Open MPI counts cores.
func (p *Line) setThreads(a Arg) error {
	if !a.On {
		return nil
	}
	p.mpi.threads = a
	p.place().MapBy.Threads = true
	return nil
}

// finishPE maps by NUMA node where a number of cores is all that was said, as Open MPI does, and
// by distance from the device that its parameter names.
func (p *Line) finishPE() {
	for _, w := range p.placeWishes() {
		if w.MapBy.PE > 0 && w.MapBy.Object == placement.AnyObject {
			w.MapBy.Object = placement.ByNUMA
		}
		if w.MapBy.Object == placement.ByDistance {
			w.MapBy.Device = cmp.Or(w.MapBy.Device, p.mpi.distDevice)
		}
	}
}

// placeWishes are the wishes of the job and of its programs.
func (p *Line) placeWishes() []*job.PlacementSpec {
	wishes := []*job.PlacementSpec{&p.Spec.Place}
	for _, app := range p.Spec.Apps {
		if app.Place != nil {
			wishes = append(wishes, app.Place)
		}
	}
	return wishes
}

// setBindTo takes a binding, as Open MPI or Hydra spells it.
func (p *Line) setBindTo(a Arg) error {
	value := a.Value
	switch lower := strings.ToLower(value); {
	case lower == "rr": // Hydra: the CPUs in turn
		value = "core"
	case lower == "cpu-list", lower == "cpu-list:ordered":
		p.mpi.ordered = Arg{On: lower != "cpu-list", From: a.From}
		return nil
	case deviceWord(lower) != "":
		return fmt.Errorf("gorun binds ranks to CPUs near a device: use --map-by %s", deviceWord(lower))
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

// setCPUList takes the CPUs of all ranks.
func (p *Line) setCPUList(a Arg) error {
	set, err := placement.ParseCPUSet(a.Value)
	if err == nil && set.Len() == 0 {
		err = errors.New("the list is empty")
	}
	p.mpi.cpus, p.mpi.cpusFrom = set, a.From
	return err
}

// finishCPUList binds ranks to the CPUs of a list, whatever else they are bound to, as Open MPI does.
func (p *Line) finishCPUList() {
	bind := placement.BindTo{Given: true, Lists: []placement.CPUSet{p.mpi.cpus}, From: p.mpi.cpusFrom}
	switch {
	case p.mpi.cpusFrom == "" && p.mpi.ordered.From != "":
		p.problem("%s needs the CPUs: add --cpu-list LIST", p.mpi.ordered.From)
		return
	case p.mpi.cpusFrom == "":
		return
	case p.mpi.ordered.On:
		bind.Lists = nil
		for cpu := 0; len(bind.Lists) < p.mpi.cpus.Len(); cpu++ {
			if one, err := placement.ParseCPUSet(strconv.Itoa(cpu)); err == nil && p.mpi.cpus.Has(cpu) {
				bind.Lists = append(bind.Lists, one)
			}
		}
	}
	for _, w := range p.placeWishes() {
		w.BindTo = bind
	}
}

func (p *Line) setRankBy(a Arg) (err error) {
	p.place().RankBy, err = placed("--rank-by", a, placement.ParseRankBy)
	p.place().RankBy.From = a.From
	return err
}

// ownPlace begins the wish of a later program, which is nobody's until an option fills it.
func (p *Line) ownPlace() *job.PlacementSpec {
	if p.app.Place == nil {
		whole := p.Spec.Place
		p.app.Place = &job.PlacementSpec{GPUs: whole.GPUs, Memory: whole.Memory, Isolate: whole.Isolate, Report: whole.Report}
	}
	return p.app.Place
}
