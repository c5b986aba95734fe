package main

import (
	"slices"
	"strings"

	"gorun/launcher/job"
)

// mostSizes bounds the sizes of a measurement: more are a typing mistake.
const mostSizes = 10_000

// checkMeasurement refuses what contradicts itself.
func (o *benchOptions) checkMeasurement() {
	refuse := func(when bool, format string, args ...any) {
		if when {
			o.problem(format, args...)
		}
	}
	refuse(o.Operation == "", "which operation? Write gorun bench allreduce, or one of %s",
		strings.Join(benchOperations[1:], ", "))
	refuse(o.Begin > o.End, "%s is more than %s: the smallest size comes first", o.beginFrom, o.endFrom)
	refuse(o.Factor > 0 && o.Step > 0, "--stepfactor and --stepbytes contradict each other: keep one")
	refuse(o.Step > 0 && (o.End-o.Begin)/max(o.Step, 1) >= mostSizes,
		"--stepbytes %d: from %d to %d these are %d sizes, more than %d: take a larger step, or --stepfactor",
		o.Step, o.Begin, o.End, (o.End-o.Begin)/max(o.Step, 1)+1, mostSizes)
	if o.Operation == "" {
		return
	}
	refuse(o.opFrom != "" && !slices.Contains(benchReduced, o.Operation), "%s: %s reduces nothing; leave it out",
		o.opFrom, o.Operation)
	refuse(o.rootFrom != "" && !slices.Contains(benchRooted, o.Operation), "%s: %s has no root; leave it out",
		o.rootFrom, o.Operation)
	refuse(slices.Contains(benchReductions[5:], o.Op) && strings.Contains(o.DType, "float"),
		"%s works on the bits of integers, not on %s: add --dtype int32, for instance", o.opFrom, o.DType)
	o.checkRoot()
	o.checkBarrier()
	o.checkPrediction()
	o.oneOutput(ifGiven(o.Invocation.JSON && !o.DryRun, "--json"), ifGiven(o.CSV, "--csv"),
		ifGiven(o.SVG == "-", "--svg -"))
	if n := iterations(o.RanksFrom()); n != "" && o.asNCCLTests {
		o.Note(o.RanksFrom() + " is the number of ranks, as everywhere in gorun; nccl-tests' iterations are --iters " + n)
	}
}

// ranksGiven is the number of ranks where the command line has it, or 0.
func (o *benchOptions) ranksGiven() int {
	if n := o.Spec.Apps[0].NumRanks; n > 0 {
		return n
	}
	if o.Spec.PerNode.Kind == job.CountFixed {
		return o.Spec.PerNode.N * max(len(o.Spec.Hosts), o.Spec.NumNodes, 1)
	}
	return 0
}

// checkRoot refuses ranks that the job will not have.
func (o *benchOptions) checkRoot() {
	ranks := o.ranksGiven()
	switch {
	case ranks == 0: // the ranks will see
	case o.Root >= ranks:
		o.problem("%s: the last of %d ranks is rank %d", o.rootFrom, ranks, ranks-1)
	case o.Operation == "p2p" && ranks < 2:
		o.problem("p2p goes between two ranks, and there is one: add -np 2")
	}
}

// checkBarrier refuses what says nothing about a barrier.
func (o *benchOptions) checkBarrier() {
	if o.Operation != "barrier" {
		return
	}
	for _, option := range []struct{ from, why string }{
		{o.beginFrom, "has no size"},
		{o.endFrom, "has no size"},
		{o.stepFrom, "has no size"},
		{o.predictFrom, "has no size"},
		{o.dtypeFrom, "has no elements"},
		{map[bool]string{true: o.checkFrom}[o.Check], "has no result to check"},
		{o.linkFrom, "moves nothing that a link could bound"},
	} {
		if option.from != "" {
			o.problem("%s: a barrier %s; leave it out", option.from, option.why)
		}
	}
	if o.SVG != "" {
		o.problem("--svg: a barrier moves nothing whose bandwidth could be drawn")
	}
}

// checkPrediction refuses to predict where there will be no model.
func (o *benchOptions) checkPrediction() {
	apart := o.Factor > 0 && o.Begin <= o.End/o.Factor || o.Step > 0 && o.Step <= o.End-o.Begin
	switch {
	case o.Predict == 0 || o.Operation == "barrier":
	case !apart && o.Predict != o.Begin:
		o.problem("%s: one size, %d bytes, makes no model: give a smallest and a largest, -b and -e, that are "+
			"apart", o.predictFrom, o.Begin)
	case o.ranksGiven() == 1:
		o.problem("%s: one rank sends nothing of which a model could be made: add -np 2 or more", o.predictFrom)
	}
}
