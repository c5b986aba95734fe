package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// mostSizes bounds the sizes of a measurement: more are a typing mistake.
const mostSizes = 10_000

// checkBench refuses what contradicts itself.
func (p *parser) checkBench() {
	b := &p.bench
	refuse := func(when bool, format string, args ...any) {
		if when {
			p.problem(fmt.Errorf(format, args...))
		}
	}
	refuse(b.Operation == "", "which operation? Write gorun bench allreduce, or one of %s",
		strings.Join(benchOperations[1:], ", "))
	refuse(b.Begin > b.End, "%s is more than %s: the smallest size comes first", b.beginFrom, b.endFrom)
	refuse(b.Factor > 0 && b.Step > 0, "--stepfactor and --stepbytes contradict each other: keep one")
	refuse(b.Step > 0 && (b.End-b.Begin)/max(b.Step, 1) >= mostSizes,
		"--stepbytes %d: from %d to %d these are %d sizes, more than %d: take a larger step, or --stepfactor",
		b.Step, b.Begin, b.End, (b.End-b.Begin)/max(b.Step, 1)+1, mostSizes)
	if b.Operation == "" {
		return
	}
	refuse(b.opFrom != "" && !slices.Contains(benchReduced, b.Operation), "%s: %s reduces nothing; leave it out",
		b.opFrom, b.Operation)
	refuse(b.rootFrom != "" && !slices.Contains(benchRooted, b.Operation), "%s: %s has no root; leave it out",
		b.rootFrom, b.Operation)
	refuse(slices.Contains(benchReductions[5:], b.Op) && strings.Contains(b.DType, "float"),
		"%s works on the bits of integers, not on %s: add --dtype int32, for instance", b.opFrom, b.DType)
	p.checkRoot()
	p.checkBarrier()
	p.checkPrediction()
	p.oneBenchOutput()
	if n := iterations(p.ranksFrom); n != "" && b.asNCCLTests {
		p.note(p.ranksFrom + " is the number of ranks, as everywhere in gorun; nccl-tests' iterations are --iters " + n)
	}
}

// ranksGiven is the number of ranks where the command line has it, or 0.
func (p *parser) ranksGiven() int {
	if n := p.inv.Spec.Apps[0].NumRanks; n > 0 {
		return n
	}
	if p.inv.Spec.PerNode.Kind == job.CountFixed {
		return p.inv.Spec.PerNode.N * max(len(p.inv.Spec.Hosts), p.inv.Spec.NumNodes, 1)
	}
	return 0
}

// checkRoot refuses ranks that the job will not have.
func (p *parser) checkRoot() {
	b, ranks := &p.bench, p.ranksGiven()
	switch {
	case ranks == 0: // the ranks will see
	case b.Root >= ranks:
		p.problem(fmt.Errorf("%s: the last of %d ranks is rank %d", b.rootFrom, ranks, ranks-1))
	case b.Operation == "p2p" && ranks < 2:
		p.problem(errors.New("p2p goes between two ranks, and there is one: add -np 2"))
	}
}

// checkBarrier refuses what says nothing about a barrier.
func (p *parser) checkBarrier() {
	b := &p.bench
	if b.Operation != "barrier" {
		return
	}
	for _, o := range []struct{ from, why string }{
		{b.beginFrom, "has no size"},
		{b.endFrom, "has no size"},
		{b.stepFrom, "has no size"},
		{b.predictFrom, "has no size"},
		{b.dtypeFrom, "has no elements"},
		{map[bool]string{true: b.checkFrom}[b.Check], "has no result to check"},
		{b.linkFrom, "moves nothing that a link could bound"},
	} {
		if o.from != "" {
			p.problem(fmt.Errorf("%s: a barrier %s; leave it out", o.from, o.why))
		}
	}
	if b.SVG != "" {
		p.problem(errors.New("--svg: a barrier moves nothing whose bandwidth could be drawn"))
	}
}

// checkPrediction refuses to predict where there will be no model.
func (p *parser) checkPrediction() {
	b := &p.bench
	apart := b.Factor > 0 && b.Begin <= b.End/b.Factor || b.Step > 0 && b.Step <= b.End-b.Begin
	switch {
	case b.Predict == 0 || b.Operation == "barrier":
	case !apart && b.Predict != b.Begin:
		p.problem(fmt.Errorf("%s: one size, %d bytes, makes no model: give a smallest and a largest, -b and -e, that are "+
			"apart", b.predictFrom, b.Begin))
	case p.ranksGiven() == 1:
		p.problem(fmt.Errorf("%s: one rank sends nothing of which a model could be made: add -np 2 or more", b.predictFrom))
	}
}

// oneBenchOutput refuses several forms on standard output.
func (p *parser) oneBenchOutput() {
	var outputs []string
	for _, o := range []struct {
		wanted bool
		name   string
	}{{p.inv.JSON && !p.dryRun, "--json"}, {p.bench.CSV, "--csv"}, {p.bench.SVG == "-", "--svg -"}} {
		if o.wanted {
			outputs = append(outputs, o.name)
		}
	}
	if len(outputs) > 1 {
		p.problem(fmt.Errorf("%s and %s contradict each other: both want standard output", outputs[0], outputs[1]))
	}
}
