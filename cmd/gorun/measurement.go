package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/shellwords"
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

// setOperation reads the operation's name: all_reduce, AllReduce, all-reduce, all_reduce_perf and MPI_Allreduce are
// one.
func (o *benchOptions) setOperation(word string) error {
	name, perf := strings.CutSuffix(strings.ToLower(word), "_perf")
	name = strings.TrimPrefix(name, "mpi_")
	name = strings.NewReplacer("_", "", "-", "").Replace(name)
	switch name {
	case "bcast":
		name = "broadcast"
	case "reducescatterblock": // MPI's whose parts are equal, as they are here
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

// strayWord refuses a word that is no operation. Behind an unknown option it is the value, and the option is told of.
func (o *benchOptions) strayWord(before []string, word string, err error) {
	last := ""
	if len(before) > 0 && len(before[len(before)-1]) > 1 && before[len(before)-1][0] == '-' {
		last = before[len(before)-1]
	}
	option, known := o.FindOption(last)
	switch {
	case last == "--" || last != "" && !known:
	case option != nil && slices.Contains([]string{"json", "csv"}, option.Names[0]):
		o.problem("%s takes no file: write %s > %s", last, last, shellwords.Quote(word))
	default:
		o.problem("%s: %w", dialect.Typed([]string{word}), err)
	}
}

// setRanks takes a number of ranks, and says what nccl-tests' -n is here.
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

// iterations is the number where an option is -n, which nccl-tests has for iterations; "" otherwise.
func iterations(from string) string {
	n, short := strings.CutPrefix(from, "-n")
	n = strings.TrimLeft(n, " =")
	if _, err := strconv.Atoi(n); !short || err != nil {
		return ""
	}
	return n
}

// atLeast reads a number from least on.
func atLeast(least int) func(string) (int, error) {
	return func(value string) (int, error) { return dialect.ParseAtLeast(value, least) }
}

// nameOf reads one of names, in letters of any size.
func nameOf(names []string) func(string) (string, error) {
	return func(value string) (string, error) {
		value = strings.ToLower(value)
		return value, dialect.OneOf(value, names...)
	}
}

// parseBenchSize reads a size of those to be measured.
func parseBenchSize(value string) (int64, error) {
	n, err := parseSize(value)
	if err != nil {
		err = errors.New("not a size from 1 on; write 8 (bytes), 64K, 64M or 4G")
	}
	return n, err
}

// parsePredicted reads a size with the units of --maxbytes, which may be a fraction of one.
func parsePredicted(value string) (int64, error) {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(value), "B"), "I")
	unit := 1.0
	for i, letter := range []string{"K", "M", "G", "T"} {
		if cut, ok := strings.CutSuffix(number, letter); ok {
			number, unit = cut, float64(int64(1)<<(10*(i+1)))
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if size := n * unit; err == nil && size >= 1 && size < math.MaxInt64 {
		return int64(math.Round(size)), nil
	}
	return 0, errors.New("not a size; write 25M or 1.3G (2^20, 2^30 bytes, as --maxbytes has them) or a number of bytes")
}

// linkUnits are those of bandwidths, in bytes a second, without prefixes. A small b is bits, wherever it stands alone.
var linkUnits = []struct {
	tail  string
	bytes float64
}{{"bit", 1.0 / 8}, {"bits", 1.0 / 8}, {"b", 1.0 / 8}, {"B", 1}}

// parseLink reads a bandwidth in bytes a second. Prefixes are decimal, as networks and the columns have them; Ki, Mi,
// Gi and Ti are not.
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
			rest, has := strings.CutSuffix(unit, u.tail)
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

// parsePerSize reads the time for the trials of a size.
func parsePerSize(value string) (time.Duration, error) {
	d, err := dialect.ParseDuration(value)
	if err != nil || d == 0 {
		err = errors.New("not a time above 0; write 100ms or 0.1 (seconds)")
	}
	return d, err
}

func parseCompute(value string) (time.Duration, error) {
	d, err := dialect.ParseDuration(value)
	switch {
	case err != nil:
		err = errors.New("not a time; write 12ms or 0.5 (seconds)")
	case d < time.Nanosecond:
		err = errors.New("a step needs some time to compute; write 12ms or 0.5 (seconds)")
	}
	return d, err
}

func parseDType(value string) (string, error) {
	name := strings.TrimPrefix(strings.ToLower(value), "torch.")
	if other, ok := benchDTypeNames[name]; ok {
		name = other
	}
	return name, dialect.OneOf(name, benchDTypes...)
}
