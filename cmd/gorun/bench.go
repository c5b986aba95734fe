package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/early"
	"gorun/comm/bench"
	"gorun/env"
	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/nvml/worker"
	"gorun/placement/sysfs"
)

// benchOptions are those of gorun bench, whose program is gorun itself: gorun's own for a job (Spec), and what its
// ranks measure.
type benchOptions struct {
	*call
	bench.Config
	gpus                          int  // for each rank of -np
	asNCCLTests                   bool // the operation's name is that of a program of nccl-tests
	opFrom, rootFrom, backendFrom string
	beginFrom, endFrom, stepFrom  string
	dtypeFrom, checkFrom          string
	linkFrom, predictFrom         string
}

func benchCommand(c *call) *command {
	o := &benchOptions{call: c, Config: bench.Config{Warmup: 5}}
	taken := c.JobOptionsExcept(false, "np", "json", "dry-run", "version", "help", "module", "no-python", "run-path",
		"print-completion", "f", "w", "redirects", "tee")
	for _, files := range c.JobOptions("redirects", "tee") { // their short names mean something else
		long := *files
		long.Names, long.Attached = long.Names[:1], false
		taken = append(taken, &long)
	}
	flags := append(o.rows(), c.JobOptions("dry-run")...)
	return &command{
		request: o,
		arrange: o.operationsOut,
		Command: cli.Command{
			Usage: "measure collectives between ranks, as nccl-tests does",
			Description: "gorun bench measures collectives between ranks as nccl-tests does: time, algbw and busbw for each " +
				"size, out of place and in place. The operations: " + strings.Join(benchOperations, ", ") + ".",
			UsageText: "gorun bench OPERATION [options]",
			Flags:     append(c.Flags(flags...), dialect.Hide(c.Flags(taken...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun bench allreduce -np 4", "8 bytes to 64 MiB between four ranks"},
				{"gorun bench alltoall -np 2 -b 4K -e 1G -f 4", "other sizes, each four times the last"},
				{"gorun bench allreduce -np 2 --check --svg allreduce.svg", "look at every result, and draw the bandwidths"},
				{"gorun bench allreduce -g 8 -b 8 -e 128M -f 2", "between 8 GPUs, with a process for each"},
				{"gorun bench p2p -H node1,node2", "each path between two hosts, by TCP and RDMA"},
				{"gorun bench allreduce -np 2 --compute 12ms --predict 25M", "what it means for a training step"},
			},
			Ranks: "Without either, nor gorun's --nproc-per-node: one rank per GPU, else one per CPU.",
			Codes: []dialect.Example{
				{"0", "everything was measured"},
				{"1", "--check found wrong results, a rank failed, or what was measured could not be written"},
				{"2", "a mistake on the command line, or what these ranks cannot measure"},
				{"125", "no program with collectives (gorun-gpu), none of its back ends, or no way to make the file of --svg"},
				{"others", "as gorun --help has them"},
			},
			Last: "gorun's own options on where and how ranks run are taken, too (gorun --help): -H, --map-by, --bind-to, " +
				"--gpus, -x, --timeout and others. More: docs/bench.md.",
		},
	}
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

// benchDTypeNames are other names of element types: nccl-tests', NumPy's and PyTorch's.
var benchDTypeNames = map[string]string{
	"float": "float32", "fp32": "float32", "f32": "float32", "double": "float64", "fp64": "float64", "f64": "float64",
	"half": "float16", "fp16": "float16",
	"f16": "float16", "bf16": "bfloat16", "char": "int8", "byte": "uint8", "int": "int32", "long": "int64",
}

// rows are the options of gorun bench alone: nccl-tests' own, by their short and long names, and others.
func (o *benchOptions) rows() []*option {
	ranks := &option{
		Names: []string{"np", "n", "world-size"}, Group: dialect.GroupRanks, Value: "N", Attached: true,
		Family: dialect.FamilyCount, Help: "number of ranks (nccl-tests' -n, iterations, is --iters)",
		Set: o.setRanks,
	}
	gpus := option{
		Names: []string{"ngpus", "g"}, Value: "N", Attached: true, Family: dialect.FamilyCount,
		Help: "GPUs for each of these: so many times more ranks, each a process with one GPU of its own; asks for " +
			"--backend nccl",
		Set: dialect.Parsed(&o.gpus, dialect.ParseRanks),
	}
	return slices.Concat([]*option{ranks}, own(dialect.GroupRanks, gpus), own(dialect.GroupMeasured, o.measured()...),
		own(dialect.GroupMeasuring, o.measuring()...), own(dialect.GroupShown, o.shown()...),
		own(dialect.GroupRefused, o.refused()...))
}

// measured says what is measured.
func (o *benchOptions) measured() []option {
	return []option{
		{
			Names: []string{"operation"}, Value: "NAME", Choices: benchOperations,
			Help: "the operation, which may also be the first word; nccl-tests' and MPI's spellings are understood " +
				"(all_reduce_perf, MPI_Allreduce)",
			Set: func(a dialect.Arg) error { return o.setOperation(a.Value) },
		},
		{
			Names: []string{"minbytes", "b", "min-size"}, Value: "SIZE", Attached: true,
			Help: "smallest size; SIZE is 8 (bytes), 4K, 64M, 1G: 2^10, 2^20, 2^30 bytes, with or without B or iB (default: 8)",
			Set:  saidBy(&o.beginFrom, &o.Begin, parseBenchSize),
		},
		{
			Names: []string{"maxbytes", "e", "max-size"}, Value: "SIZE", Attached: true,
			Help: "largest size (default: 64M)",
			Set:  saidBy(&o.endFrom, &o.End, parseBenchSize),
		},
		{
			Names: []string{"stepfactor", "f"}, Value: "N", Attached: true,
			Help: "from one size to the next (default: 2)",
			Set: saidBy(&o.stepFrom, &o.Factor, func(value string) (int64, error) {
				n, err := dialect.ParseAtLeast(value, 2)
				return int64(n), err
			}),
		},
		{
			Names: []string{"stepbytes", "i"}, Value: "SIZE", Attached: true,
			Help: "add so many bytes from one size to the next instead",
			Set:  saidBy(&o.stepFrom, &o.Step, parseBenchSize),
		},
		{
			Names: []string{"dtype", "datatype", "d"}, Value: "TYPE", Choices: benchDTypes,
			Help: "type of the elements (default: float32)",
			Set:  saidBy(&o.dtypeFrom, &o.DType, parseDType),
		},
		{
			Names: []string{"op", "redop", "o"}, Value: "OP", Choices: benchReductions,
			Help: "the reduction (default: sum)",
			Set:  saidBy(&o.opFrom, &o.Op, nameOf(benchReductions)),
		},
		{
			Names: []string{"root"}, Value: "RANK",
			Help: "rank from which a broadcast or scatter comes, to which a reduce or gather goes (default: 0)",
			Set:  saidBy(&o.rootFrom, &o.Root, atLeast(0)),
		},
		{
			Names: []string{"backend"}, Value: "NAME", Choices: benchBackends,
			Help: "what runs the calls: auto, cpu or nccl (default: auto)",
			Set:  saidBy(&o.backendFrom, &o.Backend, nameOf(benchBackends)),
		},
	}
}

// measuring says how it is measured.
func (o *benchOptions) measuring() []option {
	return []option{
		{
			Names: []string{"trials", "iters"}, Value: "N",
			Help: "trials of each size (default: as many as --time-per-size has room for, at least 5)",
			Set:  dialect.Parsed(&o.Trials, atLeast(1)),
		},
		{
			Names: []string{"warmup", "warmup-iters", "w"}, Value: "N", Attached: true,
			Help: "calls before the trials of a size (default: 5)",
			Set:  dialect.Parsed(&o.Warmup, atLeast(0)),
		},
		{
			Names: []string{"time-per-size"}, Value: "D",
			Help: "time for the trials of a size, out of place and again in place (default: 0.1); D is 0.1 (seconds) or 100ms",
			Set:  dialect.Parsed(&o.PerSize, parsePerSize),
		},
		{
			Names: []string{"check"},
			Help:  "compare every element of one more call with what it must be, and count the #wrong ones",
			Set: func(a dialect.Arg) error {
				o.Check, o.checkFrom = a.On, a.From
				return nil
			},
		},
		{
			Names: []string{"c"}, Value: "0|1", Choices: []string{"0", "1"}, Attached: true,
			Help: "the same, as nccl-tests has it",
			Set: saidBy(&o.checkFrom, &o.Check, func(value string) (bool, error) {
				return value == "1", dialect.OneOf(value, "0", "1")
			}),
		},
	}
}

// shown says what is shown.
func (o *benchOptions) shown() []option {
	return []option{
		{
			Names: []string{"link-bandwidth"}, Value: "RATE",
			Help: "what goes from rank to rank in a second, for the bound beside each size: 25GB/s (10^9 bytes) or 200Gb/s " +
				"(10^9 bits) (default: what follows from copying in memory)",
			Set: saidBy(&o.linkFrom, &o.Link, parseLink),
		},
		{
			Names: []string{"compute"}, Value: "D",
			Help: "say how much of a step communication takes that computes for D (12ms) and makes one call; more than " +
				"30 % is a warning",
			Set: dialect.Parsed(&o.Compute, parseCompute),
		},
		{
			Names: []string{"predict"}, Value: "SIZE",
			Help: "say what a call of that size takes by the model, and take it for --compute; SIZE is as above, or with a " +
				"fraction: 1.3G (default: the largest)",
			Set: saidBy(&o.predictFrom, &o.Predict, parsePredicted),
		},
		{
			Names: []string{"json"},
			Help:  "print everything as JSON on standard output, in place of the table; with --dry-run the plan",
			Set:   dialect.Switch(&o.Invocation.JSON),
		},
		{
			Names: []string{"csv"},
			Help:  "print lines of comma-separated values on standard output, in place of the table",
			Set:   dialect.Switch(&o.CSV),
		},
		{
			Names: []string{"svg"}, Value: "FILE",
			Help: "also draw bandwidth against size, with the bound, to FILE; - is standard output, without the table",
			Set:  dialect.Text(&o.SVG),
		},
	}
}

// refused are nccl-tests' names that mean something else to gorun.
func (o *benchOptions) refused() []option {
	return []option{
		{
			Names: []string{"r"}, Value: "RANK", Attached: true,
			Help: "use --root RANK; gorun's own option for files of output is --redirects",
		},
		{
			Names: []string{"nthreads", "t"}, Value: "N", Attached: true,
			Help: "use -np N, as ranks are processes here; gorun's own option for files of output is --tee",
		},
	}
}

// operationsOut takes the operation from among the words, wherever it stands: options may follow it.
func (o *benchOptions) operationsOut(args []string) []string {
	o.DisableMPI() // its ranks have no use for it
	for {
		before, words := o.SplitProgram(args)
		if len(words) == 0 {
			return args
		}
		if err := o.setOperation(words[0]); err != nil {
			o.strayWord(before, words[0], err)
		}
		args = slices.Concat(before, words[1:])
	}
}

// check settles the job and what it measures.
func (o *benchOptions) check([]string) {
	o.ResolveRanks(o.countRanks, o.oneRankPerHost)
	if o.Err() == nil { // what was refused says nothing about the rest
		o.defaults()
		o.checkMeasurement()
	}
	o.NoteUnknownVariables()
	if o.Spec.Output.Label == job.LabelAuto {
		o.Spec.Output.Label = job.LabelNever // only rank 0 prints
	}
	o.JSON = o.Invocation.JSON && !o.DryRun
}

// benchDefault is where the number of ranks comes from that nobody gave.
const benchDefault = "gorun bench's default"

// countRanks counts the ranks: a GPU is one.
func (o *benchOptions) countRanks() {
	app, perNode := &o.Spec.Apps[0], &o.Spec.PerNode
	app.Start = job.StartExec
	if app.NumRanks == 0 && perNode.Kind == job.CountUnset && o.gpus == 0 && !o.AllocationHasSlots() {
		*perNode = job.Count{Kind: job.CountAuto, From: benchDefault}
	}
	switch {
	case o.gpus == 0:
	case perNode.Kind != job.CountUnset && perNode.Kind != job.CountFixed:
		o.problem("-g %d does not go with %s: give the number of ranks", o.gpus, perNode.From)
	case o.Backend == "cpu":
		o.problem("-g %d counts GPUs, which %s has none of: use -np", o.gpus, o.backendFrom)
	case app.NumRanks == 0 && o.HasSeveralHosts():
		from := strings.TrimSpace(fmt.Sprintf("%s -g %d", perNode.From, o.gpus))
		*perNode = job.Count{Kind: job.CountFixed, N: max(perNode.N, 1) * o.gpus, From: from}
		o.Backend = "nccl"
	default:
		app.NumRanks = max(app.NumRanks, perNode.N, 1) * o.gpus
		perNode.Kind, perNode.N = job.CountUnset, 0
		o.Spec.RanksFrom = strings.TrimSpace(fmt.Sprintf("%s -g %d", o.Spec.RanksFrom, o.gpus))
		o.Backend = "nccl"
		if app.NumRanks > dialect.MaxRanks {
			o.problem("-g %d: more than %d ranks", o.gpus, dialect.MaxRanks)
		}
	}
}

// The sizes where none are given, those of nccl-tests but for the largest.
const (
	benchBegin = 8
	benchEnd   = 64 << 20
)

// oneRankPerHost is what p2p takes on several hosts where nothing else is said: their CPUs are not what it measures.
func (o *benchOptions) oneRankPerHost() {
	perNode := &o.Spec.PerNode
	severalHosts := max(len(o.Spec.Hosts), o.Spec.NumNodes) > 1
	given := o.Spec.Apps[0].NumRanks > 0 || perNode.Kind != job.CountUnset && perNode.From != benchDefault
	if o.Operation == "p2p" && severalHosts && !given {
		*perNode = job.Count{Kind: job.CountFixed, N: 1, From: "gorun bench p2p's default on several hosts"}
	}
}

// defaults fills in what was not given.
func (o *benchOptions) defaults() {
	switch {
	case o.Begin == 0 && o.End == 0:
		o.Begin, o.End = benchBegin, benchEnd
	case o.Begin == 0:
		o.Begin = min(benchBegin, o.End)
	case o.End == 0:
		o.End = max(o.Begin, benchEnd)
	}
	if o.Factor == 0 && o.Step == 0 {
		o.Factor = 2
	}
	if o.DType == "" {
		o.DType = benchDTypes[0]
	}
	if o.Backend == "" {
		o.Backend = benchBackends[0]
	}
	if o.Op == "" && slices.Contains(benchReduced, o.Operation) {
		o.Op = benchReductions[0]
	}
	if o.PerSize == 0 {
		o.PerSize = 100 * time.Millisecond
	}
}

// run runs a measurement as a job whose ranks are this program, or hands the
// command line to the one that has collectives.
func (o *benchOptions) run() error {
	if !bench.Linked {
		path, err := withCollectives(worker.Program{})
		if err == nil {
			environ := os.Environ()
			if token, given := o.around.Lookup(env.VarToken); given { // it is this process that goes on
				environ = append(environ, env.VarToken+"="+token)
			}
			words := append([]string{"gorun", "bench"}, o.args...)
			err = fmt.Errorf("execute %s: %w", path, syscall.Exec(path, words, environ))
		}
		return multierror.Append(err, errors.New(howToGetCollectives))
	}
	err := o.fillIn()
	if err == nil && !o.DryRun && !isAway(o.Spec.Hosts) {
		err = withoutGPUs(o.Backend, os.Getenv, exists)
	}
	if err != nil {
		return err
	}
	return exitWith(runJob(o.Invocation))
}

// drivers are the devices that drivers of NVIDIA (also within WSL) and AMD make.
var drivers = []string{"/dev/nvidiactl", "/dev/dxg", "/dev/kfd"}

// withoutGPUs says once, before each rank does, that this host has nothing for the nccl back end. A library that the
// environment names may be another one, which needs no driver.
func withoutGPUs(backend string, getenv func(string) string, there func(path string) bool) error {
	if backend != "nccl" || getenv("COMM_NCCL_LIBRARY") != "" || slices.ContainsFunc(drivers, there) {
		return nil
	}
	return errors.New("--backend nccl, which -g asks for, too, as each of its ranks has a GPU, finds none on this host: " +
		"no driver is loaded (none of " +
		strings.Join(drivers, ", ") + "); use --backend cpu, and -np in place of -g")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// howToGetCollectives is what to do where the program that has them is missing.
const howToGetCollectives = "hint: gorun bench needs gorun built with cgo: make gorun-gpu, or CGO_ENABLED=1 go build " +
	"-o gorun-gpu ./cmd/gorun, in gorun's sources; put gorun-gpu beside gorun"

// withCollectives finds the program that has collectives, built from the same
// sources, for one that was built without cgo.
func withCollectives(p worker.Program) (string, error) {
	path, err := p.Find()
	if err != nil {
		return "", fmt.Errorf("this gorun was built without cgo and has no collectives, and %w", err)
	}
	said, err := exec.Command(path, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", path, err)
	}
	if words := strings.Fields(string(said)); len(words) < 2 || words[1] != version.String() {
		return "", fmt.Errorf("%s is %.80q, this is version %s: install both together", path,
			strings.TrimSpace(string(said)), version.String())
	}
	return path, nil
}

// fillIn makes this program the one of the job.
func (o *benchOptions) fillIn() error {
	wish := o.Config
	wish.Version = version.String()
	if !o.DryRun && wish.SVG != "" && wish.SVG != "-" {
		var err error
		if wish.SVG, err = filepath.Abs(wish.SVG); err == nil { // ranks may run elsewhere
			err = canWrite(wish.SVG)
		}
		if err != nil {
			return of("--svg", err)
		}
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(wish)
	app := &o.Spec.Apps[0]
	app.Program, app.Args = own, []string{"bench-rank", string(text)}
	if isAway(o.Spec.Hosts) {
		o.Spec.Reach.Programs = append(o.Spec.Reach.Programs, own)
	}
	return err
}

// isAway reports whether some host is another than this one.
func isAway(list []hosts.Host) bool {
	return slices.ContainsFunc(list, func(h hosts.Host) bool { return !h.Here })
}

// benchHost is what a rank of the operation p2p learns from its host.
func benchHost() bench.Host {
	name, _ := os.Hostname()
	return bench.Host{
		Name: name,
		Machine: func() placement.Machine {
			m := sysfs.Read(everything)
			askLibrary(&m)
			m.GPUs, _ = placement.Visible(m.GPUs, placement.VisibilityOf(os.Environ()))
			return m
		},
		Find: func(program string) bool { _, err := exec.LookPath(program); return err == nil },
		Output: func(ctx context.Context, program string, args ...string) (string, error) {
			cmd := exec.CommandContext(ctx, program, args...) // #nosec G204 -- a program of perftest
			cmd.WaitDelay = time.Second
			said, err := cmd.CombinedOutput()
			if err != nil {
				lines := strings.Split(strings.TrimSpace(string(said)), "\n")
				err = fmt.Errorf("%s: %w: %.200s", program, err, lines[len(lines)-1])
			}
			return string(said), err
		},
	}
}

// benchRankCommand is one rank of a measurement; the word is what gorun bench gives its ranks: JSON.
func benchRankCommand(c *call) *command {
	r := &wordRequest{
		call: c, least: 1, most: 1,
		refusal: "gorun bench-rank is what gorun bench starts; gorun ./bench-rank starts a program of that name",
	}
	r.act = func(config string) error { return benchRank(config, c.stdout) }
	return r.hidden()
}

func benchRank(config string, stdout io.Writer) error {
	early.Over()
	var c bench.Config
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = bench.Run(context.Background(), c, benchHost(), stdout)
	}
	var unwilling *bench.WishError
	switch {
	case errors.As(err, &unwilling):
		return failure{job.ExitUsage, err.Error()}
	case err != nil && !errors.Is(err, bench.ErrJoin):
		return failure{1, err.Error()}
	}
	return err
}
