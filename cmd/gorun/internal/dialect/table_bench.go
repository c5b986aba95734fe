package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// Bench is the command line of gorun bench, whose program is gorun itself.
var Bench = &Dialect{
	Name: "gorun bench",
	About: "gorun bench measures collectives between ranks as nccl-tests does: time, algbw and busbw for each size, out " +
		"of place and in place. The operations: " + strings.Join(benchOperations, ", ") + ".",
	examples: []example{
		{"gorun bench allreduce -np 4", "8 bytes to 64 MiB between four ranks"},
		{"gorun bench alltoall -np 2 -b 4K -e 1G -f 4", "other sizes, each four times the last"},
		{"gorun bench allreduce -np 2 --check --svg allreduce.svg", "look at every result, and draw the bandwidths"},
		{"gorun bench allreduce -g 8 -b 8 -e 128M -f 2", "between 8 GPUs, with a process for each"},
		{"gorun bench p2p -H node1,node2", "each path between two hosts, by TCP and RDMA"},
		{"gorun bench allreduce -np 2 --compute 12ms --predict 25M", "what it means for a training step"},
	},
	tables: append([][]Option{benchTable}, rows(ownTable, "dry-run", "version", "help")...),
	taken: append(without([][]Option{
		ownTable, nodesTable, endTable, placeTable, reachTable, mpiTable, outputTable,
		torchrunTable, foreignTable,
	},
		"np", "json", "dry-run", "version", "help", "module", "no-python", "run-path", "print-completion", "f", "w",
		"redirects", "tee"),
		longNames(torchrunTable, "redirects", "tee")...),
	benches: true,
	codes: []example{
		{"0", "everything was measured"},
		{"1", "--check found wrong results, a rank failed, or what was measured could not be written"},
		{"2", "a mistake on the command line, or what these ranks cannot measure"},
		{"125", "no program with collectives (gorun-gpu), none of its back ends, or no way to make the file of --svg"},
		{"others", "as gorun --help has them"},
	},
	last: "gorun's own options on where and how ranks run are taken, too (gorun --help): -H, --map-by, --bind-to, " +
		"--gpus, -x, --timeout and others. More: docs/bench.md.",
}

// without is tables without some rows, each other row as a table.
func without(tables [][]Option, names ...string) [][]Option {
	left := make([][]Option, 0, 128) // every start of gorun comes here
	for _, table := range tables {
		for i := range table {
			if !slices.Contains(names, table[i].Names[0]) {
				left = append(left, table[i:i+1])
			}
		}
	}
	return left
}

// longNames is rows of a table by their first names alone: the short ones mean something else.
func longNames(table []Option, names ...string) (long [][]Option) {
	for _, row := range rows(table, names...) {
		o := row[0]
		o.Names, o.attached = o.Names[:1], false
		long = append(long, []Option{o})
	}
	return long
}

// BenchWish is what gorun bench is to measure. Its fields are those of bench.Config in package comm/bench.
type BenchWish struct {
	Operation string // one of benchOperations
	DType     string // one of benchDTypes
	Op        string // one of benchReductions; "": there is nothing to reduce
	Backend   string // auto, cpu or nccl

	Begin, End int64 // bytes
	Factor     int64 // from one size to the next, unless
	Step       int64 // this, in bytes, is not 0

	Root    int
	Trials  int // of each size; 0: what there is time for
	Warmup  int
	PerSize time.Duration

	Check   bool
	Compute time.Duration // of a step; 0: not said
	Predict int64         // bytes; 0: not said
	Link    float64       // bytes/s; 0: not said

	JSON, CSV bool
	SVG       string // file; "-" is standard output
	Version   string // left to who starts the ranks
}

// The names that gorun bench knows, the first of each is the default.
var (
	benchOperations = []string{
		"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "gather", "scatter", "alltoall", "sendrecv",
		"p2p", "barrier",
	}
	benchReduced = []string{"allreduce", "reduce", "reducescatter"}
	benchRooted  = []string{"reduce", "broadcast", "gather", "scatter"}
	benchDTypes  = []string{
		"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "int64",
		"uint64",
	}
	benchReductions = []string{"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"}
	benchBackends   = []string{"auto", "cpu", "nccl"}
)

// BenchNames are these names: operations, element types, reductions, back ends.
func BenchNames() [4][]string {
	return [4][]string{benchOperations, benchDTypes, benchReductions, benchBackends}
}

// benchDTypeNames are other names of element types: nccl-tests', NumPy's and PyTorch's.
var benchDTypeNames = map[string]string{
	"float": "float32", "fp32": "float32", "f32": "float32", "double": "float64", "fp64": "float64", "f64": "float64",
	"half": "float16", "fp16": "float16",
	"f16": "float16", "bf16": "bfloat16", "char": "int8", "byte": "uint8", "int": "int32", "long": "int64",
}

// benchTable holds the options of gorun bench alone: nccl-tests' own, by their short and long names, and others.
var benchTable = []Option{
	{
		Names: []string{"np", "n", "world-size"}, Group: GroupRanks, Value: "N", attached: true, family: familyCount,
		Help: "number of ranks (nccl-tests' -n, iterations, is --iters)",
		set:  (*parser).setBenchRanks,
	},
	{
		Names: []string{"ngpus", "g"}, Group: GroupRanks, Value: "N", attached: true, family: familyCount, from: varNone,
		Help: "GPUs for each of these: so many times more ranks, each a process with one GPU of its own; asks for " +
			"--backend nccl",
		set: func(p *parser, a arg) (err error) { p.bench.gpus, err = parseRanks(a.value); return err },
	},
	{
		Names: []string{"operation"}, Group: GroupMeasured, Value: "NAME", Choices: benchOperations, from: varNone,
		Help: "the operation, which may also be the first word; nccl-tests' and MPI's spellings are understood " +
			"(all_reduce_perf, MPI_Allreduce)",
		set: (*parser).setOperation,
	},
	{
		Names: []string{"minbytes", "b", "min-size"}, Group: GroupMeasured, Value: "SIZE", attached: true, from: varNone,
		Help: "smallest size; SIZE is 8 (bytes), 4K, 64M, 1G: 2^10, 2^20, 2^30 bytes, with or without B or iB (default: 8)",
		set:  func(p *parser, a arg) error { return setBenchSize(&p.bench.Begin, &p.bench.beginFrom, a) },
	},
	{
		Names: []string{"maxbytes", "e", "max-size"}, Group: GroupMeasured, Value: "SIZE", attached: true, from: varNone,
		Help: "largest size (default: 64M)",
		set:  func(p *parser, a arg) error { return setBenchSize(&p.bench.End, &p.bench.endFrom, a) },
	},
	{
		Names: []string{"stepfactor", "f"}, Group: GroupMeasured, Value: "N", attached: true, from: varNone,
		Help: "from one size to the next (default: 2)",
		set: func(p *parser, a arg) error {
			n, err := parseAtLeast(a.value, 2)
			p.bench.Factor, p.bench.stepFrom = int64(n), a.from
			return err
		},
	},
	{
		Names: []string{"stepbytes", "i"}, Group: GroupMeasured, Value: "SIZE", attached: true, from: varNone,
		Help: "add so many bytes from one size to the next instead",
		set:  func(p *parser, a arg) error { return setBenchSize(&p.bench.Step, &p.bench.stepFrom, a) },
	},
	{
		Names: []string{"dtype", "datatype", "d"}, Group: GroupMeasured, Value: "TYPE", Choices: benchDTypes, from: varNone,
		Help: "type of the elements (default: float32)",
		set:  (*parser).setDType,
	},
	{
		Names: []string{"op", "redop", "o"}, Group: GroupMeasured, Value: "OP", Choices: benchReductions, from: varNone,
		Help: "the reduction (default: sum)",
		set: func(p *parser, a arg) error {
			p.bench.Op, p.bench.opFrom = strings.ToLower(a.value), a.from
			return oneOf(p.bench.Op, benchReductions...)
		},
	},
	{
		Names: []string{"root"}, Group: GroupMeasured, Value: "RANK", from: varNone,
		Help: "rank from which a broadcast or scatter comes, to which a reduce or gather goes (default: 0)",
		set: func(p *parser, a arg) (err error) {
			p.bench.rootFrom = a.from
			p.bench.Root, err = parseAtLeast(a.value, 0)
			return err
		},
	},
	{
		Names: []string{"backend"}, Group: GroupMeasured, Value: "NAME", Choices: benchBackends, from: varNone,
		Help: "what runs the calls: auto, cpu or nccl (default: auto)",
		set: func(p *parser, a arg) error {
			p.bench.Backend, p.bench.backendFrom = strings.ToLower(a.value), a.from
			return oneOf(p.bench.Backend, benchBackends...)
		},
	},
	{
		Names: []string{"trials", "iters"}, Group: GroupMeasuring, Value: "N", from: varNone,
		Help: "trials of each size (default: as many as --time-per-size has room for, at least 5)",
		set:  func(p *parser, a arg) (err error) { p.bench.Trials, err = parseAtLeast(a.value, 1); return err },
	},
	{
		Names: []string{"warmup", "warmup-iters", "w"}, Group: GroupMeasuring, Value: "N", attached: true, from: varNone,
		Help: "calls before the trials of a size (default: 5)",
		set: func(p *parser, a arg) (err error) {
			p.bench.warmupGiven = true
			p.bench.Warmup, err = parseAtLeast(a.value, 0)
			return err
		},
	},
	{
		Names: []string{"time-per-size"}, Group: GroupMeasuring, Value: "D", from: varNone,
		Help: "time for the trials of a size, out of place and again in place (default: 0.1); D is 0.1 (seconds) or 100ms",
		set:  (*parser).setPerSize,
	},
	{
		Names: []string{"check"}, Group: GroupMeasuring, from: varNone,
		Help: "compare every element of one more call with what it must be, and count the #wrong ones",
		set:  func(p *parser, a arg) error { p.bench.Check, p.bench.checkFrom = a.on, a.from; return nil },
	},
	{
		Names: []string{"c"}, Group: GroupMeasuring, Value: "0|1", Choices: []string{"0", "1"}, attached: true, from: varNone,
		Help: "the same, as nccl-tests has it",
		set: func(p *parser, a arg) error {
			p.bench.Check, p.bench.checkFrom = a.value == "1", a.from
			return oneOf(a.value, "0", "1")
		},
	},
	{
		Names: []string{"link-bandwidth"}, Group: GroupShown, Value: "RATE", from: varNone,
		Help: "what goes from rank to rank in a second, for the bound beside each size: 25GB/s (10^9 bytes) or 200Gb/s " +
			"(10^9 bits) (default: what follows from copying in memory)",
		set: func(p *parser, a arg) (err error) {
			p.bench.linkFrom = a.from
			p.bench.Link, err = parseLink(a.value)
			return err
		},
	},
	{
		Names: []string{"compute"}, Group: GroupShown, Value: "D", from: varNone,
		Help: "say how much of a step communication takes that computes for D (12ms) and makes one call; more than 30 % is " +
			"a warning",
		set: (*parser).setCompute,
	},
	{
		Names: []string{"predict"}, Group: GroupShown, Value: "SIZE", from: varNone,
		Help: "say what a call of that size takes by the model, and take it for --compute; SIZE is as above, or with a " +
			"fraction: 1.3G (default: the largest)",
		set: (*parser).setPredicted,
	},
	{
		Names: []string{"json"}, Group: GroupShown, from: varNone,
		Help: "print everything as JSON on standard output, in place of the table; with --dry-run the plan",
		set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
	{
		Names: []string{"csv"}, Group: GroupShown, from: varNone,
		Help: "print lines of comma-separated values on standard output, in place of the table",
		set:  func(p *parser, a arg) error { p.bench.CSV = a.on; return nil },
	},
	{
		Names: []string{"svg"}, Group: GroupShown, Value: "FILE", from: varNone,
		Help: "also draw bandwidth against size, with the bound, to FILE; - is standard output, without the table",
		set:  func(p *parser, a arg) error { return text(&p.bench.SVG, a) },
	},
	// nccl-tests' names that mean something else to gorun.
	{
		Names: []string{"r"}, Group: GroupRefused, Value: "RANK", attached: true, from: varNone,
		Help: "use --root RANK; gorun's own option for files of output is --redirects",
	},
	{
		Names: []string{"nthreads", "t"}, Group: GroupRefused, Value: "N", attached: true, from: varNone,
		Help: "use -np N, as ranks are processes here; gorun's own option for files of output is --tee",
	},
}

// benchGiven is what options of gorun bench say.
type benchGiven struct {
	BenchWish
	gpus                          int // for each rank of -np
	warmupGiven                   bool
	asNCCLTests                   bool // the operation's name is that of a program of nccl-tests
	opFrom, rootFrom, backendFrom string
	beginFrom, endFrom, stepFrom  string
	dtypeFrom, checkFrom          string
	linkFrom, predictFrom         string
}

// benchCommand finds the operation among the words, wherever it stands: options may follow it.
func benchCommand(args []string, around Surroundings) (Invocation, error) {
	p := &parser{dialect: Bench, around: around, inv: Invocation{Dialect: Bench}}
	for {
		words := Bench.rewrite(args).program
		if len(words) == 0 {
			break
		}
		if err := p.setOperation(arg{value: words[0]}); err != nil {
			p.strayWord(args[:len(args)-len(words)], words[0], err)
		}
		args = slices.Concat(args[:len(args)-len(words)], words[1:])
	}
	p.parse(args)
	return p.finish()
}

// finishBench makes an Invocation of the options of gorun bench.
func (p *parser) finishBench() (Invocation, error) {
	p.findEngine()
	p.benchRanks()
	p.finishHosts()
	p.finishStore()
	p.finishNodes()
	p.oneRankPerHost()
	p.finishCounts()
	p.finishReach()
	p.finishOutput()
	p.finishAction()
	if p.problems == nil { // what was refused says nothing about the rest
		p.benchDefaults()
		p.checkBench()
	}
	p.noteStrangers()
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	if p.inv.Spec.Output.Label == job.LabelAuto {
		p.inv.Spec.Output.Label = job.LabelNever // only rank 0 prints
	}
	p.bench.JSON = p.inv.JSON && p.inv.Action != DryRun
	p.inv.Bench = &p.bench.BenchWish
	return p.inv, nil
}

// engineCounts reports whether a resource manager says how many ranks each host has.
func (p *parser) engineCounts() bool {
	return p.isAllocation() && !p.hostsGiven() && !slices.ContainsFunc(p.engine.found.Hosts, func(h hosts.Host) bool {
		return h.Slots == 0
	})
}

// benchDefault is where the number of ranks comes from that nobody gave.
const benchDefault = "gorun bench's default"

// benchRanks counts the ranks: a GPU is one.
func (p *parser) benchRanks() {
	app, perNode := &p.inv.Spec.Apps[0], &p.inv.Spec.PerNode
	app.Start = job.StartExec
	if app.NumRanks == 0 && perNode.Kind == job.CountUnset && p.bench.gpus == 0 && !p.engineCounts() {
		*perNode = job.Count{Kind: job.CountAuto, From: benchDefault}
	}
	switch {
	case p.bench.gpus == 0:
	case perNode.Kind != job.CountUnset && perNode.Kind != job.CountFixed:
		p.problem(fmt.Errorf("-g %d does not go with %s: give the number of ranks", p.bench.gpus, perNode.From))
	case p.bench.Backend == "cpu":
		p.problem(fmt.Errorf("-g %d counts GPUs, which %s has none of: use -np", p.bench.gpus, p.bench.backendFrom))
	case app.NumRanks == 0 && (p.hostsGiven() || p.isAllocation() || p.inv.Spec.NumNodes > 1):
		from := strings.TrimSpace(fmt.Sprintf("%s -g %d", perNode.From, p.bench.gpus))
		*perNode = job.Count{Kind: job.CountFixed, N: max(perNode.N, 1) * p.bench.gpus, From: from}
		p.bench.Backend = "nccl"
	default:
		app.NumRanks = max(app.NumRanks, perNode.N, 1) * p.bench.gpus
		perNode.Kind, perNode.N = job.CountUnset, 0
		p.inv.Spec.RanksFrom = strings.TrimSpace(fmt.Sprintf("%s -g %d", p.inv.Spec.RanksFrom, p.bench.gpus))
		p.bench.Backend = "nccl"
		if app.NumRanks > maxRanks {
			p.problem(fmt.Errorf("-g %d: more than %d ranks", p.bench.gpus, maxRanks))
		}
	}
}

// The sizes where none are given, those of nccl-tests but for the largest.
const (
	benchBegin = 8
	benchEnd   = 64 << 20
)

// oneRankPerHost is what p2p takes on several hosts where nothing else is said: their CPUs are not what it measures.
func (p *parser) oneRankPerHost() {
	perNode := &p.inv.Spec.PerNode
	severalHosts := max(len(p.inv.Spec.Hosts), p.inv.Spec.NumNodes) > 1
	given := p.inv.Spec.Apps[0].NumRanks > 0 || perNode.Kind != job.CountUnset && perNode.From != benchDefault
	if p.bench.Operation == "p2p" && severalHosts && !given {
		*perNode = job.Count{Kind: job.CountFixed, N: 1, From: "gorun bench p2p's default on several hosts"}
	}
}

// benchDefaults fills in what was not given.
func (p *parser) benchDefaults() {
	b := &p.bench
	switch {
	case b.Begin == 0 && b.End == 0:
		b.Begin, b.End = benchBegin, benchEnd
	case b.Begin == 0:
		b.Begin = min(benchBegin, b.End)
	case b.End == 0:
		b.End = max(b.Begin, benchEnd)
	}
	if b.Factor == 0 && b.Step == 0 {
		b.Factor = 2
	}
	if b.DType == "" {
		b.DType = benchDTypes[0]
	}
	if b.Backend == "" {
		b.Backend = benchBackends[0]
	}
	if b.Op == "" && slices.Contains(benchReduced, b.Operation) {
		b.Op = benchReductions[0]
	}
	if !b.warmupGiven {
		b.Warmup = 5
	}
	if b.PerSize == 0 {
		b.PerSize = 100 * time.Millisecond
	}
}

// benchRankCommand takes what gorun bench gives its ranks: JSON.
func benchRankCommand(args []string, _ Surroundings) (Invocation, error) {
	if len(args) != 1 {
		return Invocation{},
			usage(Gorun, errors.New("gorun bench-rank is what gorun bench starts; gorun ./bench-rank starts a program of that "+
				"name"))
	}
	return Invocation{Action: BenchRank, Dialect: Gorun, Wished: args[0]}, nil
}
