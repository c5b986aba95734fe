package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// maxSizes bounds the sizes of a measurement: more are a typing mistake.
const maxSizes = 10_000

// checkMeasurement refuses contradictions.
func (o *benchOptions) checkMeasurement() {
	refuseIf := func(when bool, format string, args ...any) {
		if when {
			o.refuse(format, args...)
		}
	}
	refuseIf(o.Operation == "", "which operation? Write gorun bench allreduce, or one of %s",
		strings.Join(benchOperations[1:], ", "))
	refuseIf(o.Begin > o.End, "%s is more than %s: the smallest size comes first", o.sources["minbytes"],
		o.sources["maxbytes"])
	refuseIf(o.Factor > 0 && o.Step > 0, "--stepfactor and --stepbytes contradict each other: keep one")
	refuseIf(o.Step > 0 && (o.End-o.Begin)/max(o.Step, 1) >= maxSizes,
		"--stepbytes %d: from %d to %d these are %d sizes, more than %d: take a larger step, or --stepfactor",
		o.Step, o.Begin, o.End, (o.End-o.Begin)/max(o.Step, 1)+1, maxSizes)
	if o.Operation == "" {
		return
	}
	refuseIf(o.sources["op"] != "" && !slices.Contains(benchReduced, o.Operation), "%s: %s reduces nothing; leave it out",
		o.sources["op"], o.Operation)
	refuseIf(o.sources["root"] != "" && !slices.Contains(benchRooted, o.Operation), "%s: %s has no root; leave it out",
		o.sources["root"], o.Operation)
	refuseIf(slices.Contains(benchReductions[5:], o.Op) && strings.Contains(o.DType, "float"),
		"%s works on the bits of integers, not on %s: add --dtype int32, for instance", o.sources["op"], o.DType)
	o.checkRoot()
	o.checkBarrier()
	o.checkPrediction()
	o.oneOutput(choice{o.Invocation.JSON && !o.DryRun, "--json"}, choice{o.CSV, "--csv"},
		choice{o.SVG == "-", "--svg -"})
	if n := iterations(o.RanksFrom()); n != "" && o.asNCCLTests {
		o.Note(o.RanksFrom() + " is the number of ranks, as everywhere in gorun; nccl-tests' iterations are --iters " + n)
	}
}

// knownRanks is the number of ranks if the command line has it, otherwise 0.
func (o *benchOptions) knownRanks() int {
	if n := o.Spec.Apps[0].NumRanks; n > 0 {
		return n
	}
	if o.Spec.PerNode.Kind == job.CountFixed {
		return o.Spec.PerNode.N * max(len(o.Spec.Hosts), o.Spec.NumNodes, 1)
	}
	return 0
}

// checkRoot refuses ranks that the job will not have, as far as their number is known.
func (o *benchOptions) checkRoot() {
	ranks := o.knownRanks()
	switch {
	case ranks == 0:
	case o.Root >= ranks:
		o.refuse("%s: the last of %d ranks is rank %d", o.sources["root"], ranks, ranks-1)
	case o.Operation == "p2p" && ranks < 2:
		o.refuse("p2p goes between two ranks, and there is one: add -np 2")
	}
}

// checkBarrier refuses options that do not apply to a barrier.
func (o *benchOptions) checkBarrier() {
	if o.Operation != "barrier" {
		return
	}
	for _, row := range []struct{ option, why string }{
		{"minbytes", "has no size"},
		{"maxbytes", "has no size"},
		{"stepfactor", "has no size"},
		{"stepbytes", "has no size"},
		{"predict", "has no size"},
		{"dtype", "has no elements"},
		{"check", "has no result to check"},
		{"c", "has no result to check"},
		{"link-bandwidth", "moves nothing that a link could bound"},
	} {
		source := o.sources[row.option]
		if source != "" && (o.Check || row.why != "has no result to check") {
			o.refuse("%s: a barrier %s; leave it out", source, row.why)
		}
	}
	if o.SVG != "" {
		o.refuse("--svg: a barrier moves nothing whose bandwidth could be drawn")
	}
}

// checkPrediction refuses to predict from a measurement that makes no model.
func (o *benchOptions) checkPrediction() {
	apart := o.Factor > 0 && o.Begin <= o.End/o.Factor || o.Step > 0 && o.Step <= o.End-o.Begin
	switch {
	case o.Predict == 0 || o.Operation == "barrier":
	case !apart && o.Predict != o.Begin:
		o.refuse("%s: one size, %d bytes, makes no model: give a smallest and a largest, -b and -e, that are "+
			"apart", o.sources["predict"], o.Begin)
	case o.knownRanks() == 1:
		o.refuse("%s: one rank sends nothing of which a model could be made: add -np 2 or more", o.sources["predict"])
	}
}

// setOperation takes the name of an operation: all_reduce, AllReduce, all-reduce, all_reduce_perf and MPI_Allreduce are
// the same.
func (o *benchOptions) setOperation(word string) error {
	name, perf := strings.CutSuffix(strings.ToLower(word), "_perf")
	name = strings.TrimPrefix(name, "mpi_")
	name = strings.NewReplacer("_", "", "-", "").Replace(name)
	switch name {
	case "bcast":
		name = "broadcast"
	case "reducescatterblock": // MPI's with equal parts, as here
		name = "reducescatter"
	}
	if !slices.Contains(benchOperations, name) {
		return fmt.Errorf("not an operation; there are %s", strings.Join(benchOperations, ", "))
	}
	if o.Operation != "" && o.Operation != name {
		return fmt.Errorf("one operation at a time: there is %s already", o.Operation)
	}
	o.Operation, o.asNCCLTests = name, o.asNCCLTests || perf
	return nil
}

// refuseWord refuses a word that is no operation. After an unknown option it is the value: the option is refused then.
func (o *benchOptions) refuseWord(before []string, word string, err error) {
	last := ""
	if len(before) > 0 && len(before[len(before)-1]) > 1 && before[len(before)-1][0] == '-' {
		last = before[len(before)-1]
	}
	option, known := o.FindOption(last)
	switch {
	case last == "--" || last != "" && !known:
	case option != nil && slices.Contains([]string{"json", "csv"}, option.Name()):
		o.refuse("%s takes no file: write %s > %s", last, last, shellwords.Quote(word))
	default:
		o.refuse("%s: %w", dialect.Typed([]string{word}), err)
	}
}

// setRanks takes a number of ranks and explains that nccl-tests' -n is --iters here.
func (o *benchOptions) setRanks(a dialect.Arg) error {
	before := o.RanksFrom()
	err := o.SetRanks(a)
	if _, wrong := dialect.ParseRanks(a.Value); err == nil || wrong != nil {
		return err
	}
	for _, from := range []string{a.From, before} {
		if n := iterations(from); n != "" {
			return fmt.Errorf("%w; both are numbers of ranks: nccl-tests' iterations are --iters %s", err, n)
		}
	}
	return err
}

// iterations is the value of an option -n, which in nccl-tests is the number of iterations, and "" of others.
func iterations(from string) string {
	n, short := strings.CutPrefix(from, "-n")
	n = strings.TrimLeft(n, " =")
	if _, err := strconv.Atoi(n); !short || err != nil {
		return ""
	}
	return n
}

// lowered returns a setter that takes its value in any case.
func lowered(set func(dialect.Arg) error) func(dialect.Arg) error {
	return func(a dialect.Arg) error {
		a.Value = strings.ToLower(a.Value)
		return set(a)
	}
}

// linkUnits are the units of bandwidths without prefixes, in bytes per second. A lower-case b is bits.
var linkUnits = []struct {
	suffix string
	bytes  float64
}{{"bit", 1.0 / 8}, {"bits", 1.0 / 8}, {"b", 1.0 / 8}, {"B", 1}}

// parseLink parses a bandwidth and returns bytes per second. K, M, G and T are decimal, Ki, Mi, Gi and Ti binary.
func parseLink(value string) (float64, error) {
	text := strings.TrimSpace(value)
	for _, tail := range []string{"/s", "ps"} {
		if cut, ok := strings.CutSuffix(text, tail); ok {
			text = cut
			break
		}
	}
	end := strings.LastIndexAny(text, "0123456789.") + 1
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || n <= 0 || math.IsInf(n, 0) {
		return 0, errors.New("not a bandwidth; write 25GB/s (bytes) or 200Gb/s (bits)")
	}
	unit := strings.TrimSpace(text[end:])
	for i, prefix := range []string{"", "K", "M", "G", "T"} {
		for _, u := range linkUnits {
			rest, has := strings.CutSuffix(unit, u.suffix)
			switch {
			case !has:
			case strings.EqualFold(rest, prefix):
				return n * math.Pow(1000, float64(i)) * u.bytes, nil
			case i > 0 && strings.EqualFold(rest, prefix+"i"):
				return n * math.Pow(1024, float64(i)) * u.bytes, nil
			}
		}
	}
	return 0, fmt.Errorf("bytes or bits a second, and how many? Write %[1]sGB/s (10^9 bytes) or %[1]sGb/s (10^9 bits)",
		strings.TrimSpace(text[:end]))
}

func parseDType(value string) (string, error) {
	name := strings.TrimPrefix(strings.ToLower(value), "torch.")
	if other, ok := benchDTypeNames[name]; ok {
		name = other
	}
	return name, dialect.OneOf(name, benchDTypes...)
}
