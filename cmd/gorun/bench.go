package main

import (
	"cmp"
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
	"gorun/cmd/gorun/internal/show"
	"gorun/cmd/gorun/internal/threads"
	"gorun/comm/bench"
	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/nvml/worker"
	"gorun/placement/sysfs"
)

// benchOptions are those of gorun bench. Its Spec is the job, whose program is gorun itself.
type benchOptions struct {
	*commandLine
	bench.Config
	gpus        int  // for each rank of -np
	asNCCLTests bool // the operation has the name of a program of nccl-tests
}

func benchCommand(c *commandLine) *command {
	o := &benchOptions{commandLine: c, Config: bench.Config{Warmup: 5}}
	taken := c.JobOptionsExcept(false, "check", "np", "json", "dry-run", "version", "help", "module", "no-python",
		"run-path", "print-completion", "f", "w", "redirects", "tee", "world-size")
	for _, files := range c.JobOptions("redirects", "tee") { // their short names mean something else
		long := *files
		long.Names, long.Attached = long.Name(), false
		taken = append(taken, &long)
	}
	flags := append(o.options(), c.JobOptions("dry-run")...)
	return &command{
		request: o,
		arrange: o.takeOperation,
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
			Ranks: "Without these and --nproc-per-node: one rank per GPU, else one per CPU.",
			Codes: []dialect.Example{
				{"0", "everything was measured"},
				{"1", "--check found wrong results, a rank failed, or what was measured could not be written"},
				{"2", "a mistake on the command line, or what these ranks cannot measure"},
				{"125", "no program with collectives (gorun-gpu), none of its back ends, or no way to make the file of --svg"},
				{"others", "as gorun --help has them"},
			},
			Last: "Options on where and how ranks run work as well (gorun help all): -H, --map-by, --bind-to, " +
				"--gpus, -x, --timeout and others. More: docs/bench.md.",
		},
	}
}

// Known names, the default first.
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
)

// benchDTypeNames are names of element types in nccl-tests, NumPy and PyTorch.
var benchDTypeNames = map[string]string{
	"float": "float32", "fp32": "float32", "f32": "float32", "double": "float64", "fp64": "float64", "f64": "float64",
	"half": "float16", "fp16": "float16",
	"f16": "float16", "bf16": "bfloat16", "char": "int8", "byte": "uint8", "int": "int32", "long": "int64",
}

// options are those of gorun bench alone: nccl-tests' own, by their short and long names, and others.
func (o *benchOptions) options() []*option {
	ranks := &option{
		Names: "np n world-size", Group: dialect.GroupRanks, Value: "N", Attached: true,
		Family: dialect.FamilyCount, Help: "start N ranks (iterations of nccl-tests are --iters)",
		Set: o.setRanks,
	}
	gpus := option{
		Names: "ngpus g", Value: "N", Attached: true, Family: dialect.FamilyCount,
		Help: "start N ranks for each of -n, each with a GPU; uses --backend nccl",
		Set:  dialect.Parsed(&o.gpus, dialect.ParseRanks),
	}
	return slices.Concat([]*option{ranks}, o.group(dialect.GroupRanks, gpus),
		o.group(dialect.GroupMeasured, o.workloadOptions()...), o.group(dialect.GroupMeasuring, o.methodOptions()...),
		o.group(dialect.GroupShown, o.outputOptions()...), o.group(dialect.GroupRefused, refusedByBench...))
}

func (o *benchOptions) workloadOptions() []option {
	return []option{
		{
			Names: "operation", Value: "NAME", Choices: strings.Join(benchOperations, "|"),
			Help: "measure NAME, such as allreduce, all_reduce_perf or MPI_Allreduce",
			Set:  func(a dialect.Arg) error { return o.setOperation(a.Value) },
		},
		{
			Names: "minbytes b min-size", Value: "SIZE", Attached: true,
			Help: "begin at SIZE: 8, 4K, 64M or 1G, in powers of 1024 (8)",
			Set:  dialect.Parsed(&o.Begin, parseSize),
		},
		{
			Names: "maxbytes e max-size", Value: "SIZE", Attached: true,
			Help: "end at SIZE (64M)",
			Set:  dialect.Parsed(&o.End, parseSize),
		},
		{
			Names: "stepfactor f", Value: "N", Attached: true,
			Help: "multiply the size by N at each step (2)",
			Set: dialect.Parsed(&o.Factor, func(value string) (int64, error) {
				n, err := dialect.ParseAtLeast(value, 2)
				return int64(n), err
			}),
		},
		{
			Names: "stepbytes i", Value: "SIZE", Attached: true,
			Help: "add SIZE at each step instead",
			Set:  dialect.Parsed(&o.Step, parseSize),
		},
		{
			Names: "dtype datatype d", Value: "TYPE", Choices: strings.Join(benchDTypes, "|"),
			Help: "use elements of TYPE (float32)",
			Set:  dialect.Parsed(&o.DType, parseDType),
		},
		{
			Names: "op redop o", Value: "OP", Choices: strings.Join(benchReductions, "|"),
			Help: "reduce by OP (sum)",
			Set:  lowered(dialect.Choice(&o.Op)),
		},
		{
			Names: "root", Value: "RANK",
			Help: "broadcast, reduce, gather and scatter at RANK (0)",
			Set:  dialect.Parsed(&o.Root, dialect.AtLeast(0)),
		},
		{
			Names: "backend", Value: "NAME", Choices: "auto|cpu|nccl",
			Help: "run the calls by auto, cpu or nccl (auto)",
			Set:  lowered(dialect.Choice(&o.Backend)),
		},
	}
}

func (o *benchOptions) methodOptions() []option {
	return []option{
		{
			Names: "trials iters", Value: "N",
			Help: "run N trials of each size (what --time-per-size allows, at least 5)",
			Set:  dialect.Parsed(&o.Trials, dialect.AtLeast(1)),
		},
		{
			Names: "warmup warmup-iters w", Value: "N", Attached: true,
			Help: "run N calls before the trials of a size (5)",
			Set:  dialect.Parsed(&o.Warmup, dialect.AtLeast(0)),
		},
		{
			Names: "time-per-size", Value: "D",
			Help: "spend D on the trials of a size: 0.1 (seconds), 100ms (0.1)",
			Set:  dialect.Parsed(&o.PerSize, parsePositiveDuration),
		},
		{
			Names: "check",
			Help:  "check the result of one more call of each size",
			Set:   dialect.Switch(&o.Check),
		},
		{
			Names: "c", Value: "0|1", Attached: true,
			Help: "act as --check, as in nccl-tests",
			Set:  dialect.Second(&o.Check),
		},
	}
}

func (o *benchOptions) outputOptions() []option {
	return []option{
		{
			Names: "link-bandwidth", Value: "RATE",
			Help: "assume RATE between ranks for the bound: 25GB/s, 200Gb/s (copy speed)",
			Set:  dialect.Parsed(&o.Link, parseLink),
		},
		{
			Names: "compute", Value: "D",
			Help: "say how much of a training step with D of computing is communication",
			Set:  dialect.Parsed(&o.Compute, parsePositiveDuration),
		},
		{
			Names: "model", Set: dialect.Switch(&o.Model),
			Help: "compare times with a model of latency and bandwidth, if it fits",
		},
		{
			Names: "predict", Value: "SIZE",
			Help: "predict a call of SIZE by the model (largest size)",
			Set:  dialect.Parsed(&o.Predict, parseSize),
		},
		{
			Names: "json",
			Help:  "print all results as JSON; with --dry-run the plan",
			Set:   dialect.Switch(&o.Invocation.JSON),
		},
		{
			Names: "csv",
			Help:  "print all results as comma-separated values",
			Set:   dialect.Switch(&o.CSV),
		},
		{
			Names: "svg", Value: "FILE",
			Help: "draw bandwidth by size to FILE; - is standard output",
			Set:  dialect.Text(&o.SVG),
		},
	}
}

// refusedByBench are names of nccl-tests that mean something else to gorun.
var refusedByBench = []option{
	{
		Names: "r", Value: "RANK", Attached: true,
		Help: "use --root RANK; gorun's own option for files of output is --redirects",
	},
	{
		Names: "nthreads t", Value: "N", Attached: true,
		Help: "use -np N, as ranks are processes here; gorun's own option for files of output is --tee",
	},
}

// takeOperation removes the operation from the command line, wherever it is: options may follow it.
func (o *benchOptions) takeOperation(args []string) []string {
	o.DisableMPI()
	for {
		before, words := o.SplitProgram(args)
		if len(words) == 0 {
			return args
		}
		if err := o.setOperation(words[0]); err != nil {
			o.refuseWord(before, words[0], err)
		}
		args = slices.Concat(before, words[1:])
	}
}

func (o *benchOptions) check([]string) {
	o.ResolveRanks(o.countRanks, o.oneRankPerHost)
	if o.Err() == nil { // a refused option leaves its value unset
		o.setDefaults()
		o.checkMeasurement()
	}
	o.NoteUnknownVariables()
	if o.Spec.Output.Label == job.LabelAuto {
		o.Spec.Output.Label = job.LabelNever // only rank 0 prints
	}
	o.JSON = o.Invocation.JSON && !o.DryRun
}

// benchDefault is the source of the default number of ranks.
const benchDefault = "gorun bench's default"

// countRanks determines the number of ranks. Each has one GPU.
func (o *benchOptions) countRanks() {
	app, perNode := &o.Spec.Apps[0], &o.Spec.PerNode
	app.Start = job.StartExec
	if app.NumRanks == 0 && perNode.Kind == job.CountUnset && o.gpus == 0 && !o.AllocationHasSlots() {
		*perNode = job.Count{Kind: job.CountAuto, From: benchDefault}
	}
	switch {
	case o.gpus == 0:
	case perNode.Kind != job.CountUnset && perNode.Kind != job.CountFixed:
		o.refuse("-g %d does not go with %s: give the number of ranks", o.gpus, perNode.From)
	case o.Backend == "cpu":
		o.refuse("-g %d counts GPUs, which %s has none of: use -np", o.gpus, o.sources["backend"])
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
			o.refuse("-g %d: more than %d ranks", o.gpus, dialect.MaxRanks)
		}
	}
}

// oneRankPerHost is the default of p2p on several hosts: it does not measure their CPUs.
func (o *benchOptions) oneRankPerHost() {
	perNode := &o.Spec.PerNode
	severalHosts := max(len(o.Spec.Hosts), o.Spec.NumNodes) > 1
	given := o.Spec.Apps[0].NumRanks > 0 || perNode.Kind != job.CountUnset && perNode.From != benchDefault
	if o.Operation == "p2p" && severalHosts && !given {
		*perNode = job.Count{Kind: job.CountFixed, N: 1, From: "gorun bench p2p's default on several hosts"}
	}
}

func (o *benchOptions) setDefaults() {
	const begin, end = 8, 64 << 20 // nccl-tests' end is smaller
	switch {
	case o.Begin == 0 && o.End == 0:
		o.Begin, o.End = begin, end
	case o.Begin == 0:
		o.Begin = min(begin, o.End)
	case o.End == 0:
		o.End = max(o.Begin, end)
	}
	if o.Factor == 0 && o.Step == 0 {
		o.Factor = 2
	}
	if o.Op == "" && slices.Contains(benchReduced, o.Operation) {
		o.Op = benchReductions[0]
	}
	o.DType = cmp.Or(o.DType, benchDTypes[0])
	o.Backend = cmp.Or(o.Backend, "auto")
	o.PerSize = cmp.Or(o.PerSize, 100*time.Millisecond)
}

// run starts a job whose ranks are this program. Without cgo, it executes gorun-gpu instead.
func (o *benchOptions) run() error {
	if !bench.Linked {
		path, err := findCollectives(worker.Program{})
		if err == nil {
			environ := os.Environ()
			if token, given := o.around.Lookup(env.VarToken); given { // surroundings removed it
				environ = append(environ, env.VarToken+"="+token)
			}
			words := append([]string{"gorun", "bench"}, o.args...)
			err = fmt.Errorf("execute %s: %w", path, syscall.Exec(path, words, environ))
		}
		return multierror.Append(err, errors.New(collectivesHint))
	}
	err := o.setProgram()
	if err == nil && !o.DryRun && !anyRemote(o.Spec.Hosts) {
		err = checkDrivers(o.Backend, os.Getenv, exists)
	}
	if err != nil {
		return err
	}
	return exitWith(runJob(o.Invocation))
}

// gpuDrivers are the devices of drivers by NVIDIA (the second within WSL) and AMD.
var gpuDrivers = []string{"/dev/nvidiactl", "/dev/dxg", "/dev/kfd"}

// checkDrivers refuses the nccl back end on a host without GPUs, before each rank does. A library that the environment
// names may need no driver.
func checkDrivers(backend string, getenv func(string) string, exists func(path string) bool) error {
	if backend != "nccl" || getenv("COMM_NCCL_LIBRARY") != "" || slices.ContainsFunc(gpuDrivers, exists) {
		return nil
	}
	return errors.New("--backend nccl (implied by -g) needs a GPU: no driver is loaded on this host (none of " +
		strings.Join(gpuDrivers, ", ") + "); use --backend cpu, and -np instead of -g")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const collectivesHint = "hint: run `make gorun-gpu` in gorun's sources, and put gorun-gpu beside gorun: gorun bench " +
	"needs a gorun built with cgo"

// findCollectives finds the program that has collectives and checks that its version is ours.
func findCollectives(p worker.Program) (string, error) {
	path, err := p.Find()
	if err != nil {
		return "", fmt.Errorf("this gorun was built without cgo and has no collectives, and %w", err)
	}
	output, err := exec.Command(path, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", path, err)
	}
	if words := strings.Fields(string(output)); len(words) < 2 || words[1] != version.String() {
		return "", fmt.Errorf("%s is %.80q, this is version %s: install both together", path,
			strings.TrimSpace(string(output)), version.String())
	}
	return path, nil
}

// setProgram makes this program the job's, with the measurement as its argument.
func (o *benchOptions) setProgram() error {
	config := o.Config
	config.Version = version.String()
	if !o.DryRun && config.SVG != "" && config.SVG != "-" {
		var err error
		if config.SVG, err = filepath.Abs(config.SVG); err == nil { // ranks may run in another directory
			err = createFile(config.SVG)
		}
		if err != nil {
			return optionError("--svg", err)
		}
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(config)
	app := &o.Spec.Apps[0]
	app.Program, app.Args = own, []string{"bench-rank", string(text)}
	if anyRemote(o.Spec.Hosts) {
		o.Spec.Reach.Programs = append(o.Spec.Reach.Programs, own)
	}
	return err
}

func anyRemote(list []hosts.Host) bool {
	return slices.ContainsFunc(list, func(h hosts.Host) bool { return !h.Here })
}

// benchHost gives ranks access to their host.
func benchHost() bench.Host {
	name, _ := os.Hostname()
	return bench.Host{
		Name:      name,
		Memory:    sysfs.Read(sysfs.Needs{Memory: true}).MemoryLimit,
		WriteJSON: func(w io.Writer, r *bench.Report) error { return show.JSON(w, "bench", r) },
		Machine: func() placement.Machine {
			m := sysfs.Read(allFacts)
			addNVMLFacts(&m)
			m.GPUs, _ = placement.Visible(m.GPUs, placement.VisibilityOf(os.Environ()))
			return m
		},
		Find: func(program string) bool { _, err := exec.LookPath(program); return err == nil },
		Output: func(ctx context.Context, program string, args ...string) (string, error) {
			cmd := exec.CommandContext(ctx, program, args...) // #nosec G204 -- a program of perftest
			cmd.WaitDelay = time.Second
			output, err := cmd.CombinedOutput()
			if err != nil {
				lines := strings.Split(strings.TrimSpace(string(output)), "\n")
				err = fmt.Errorf("%s: %w: %.200s", program, err, lines[len(lines)-1])
			}
			return string(output), err
		},
	}
}

// benchRankCommand is a rank of a measurement. Its word is a bench.Config as JSON.
func benchRankCommand(c *commandLine) *command {
	r := &wordRequest{
		commandLine: c, atLeast: 1, atMost: 1,
		refusal: "gorun bench-rank is what gorun bench starts; gorun ./bench-rank starts a program of that name",
	}
	r.act = func(config string) error { return runBenchRank(config, c.stdout) }
	return r.hidden()
}

func runBenchRank(config string, stdout io.Writer) error {
	threads.Restore()
	var c bench.Config
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = bench.Run(context.Background(), c, benchHost(), stdout)
	}
	if _, unsupported := errors.AsType[*bench.UnsupportedError](err); unsupported {
		return exitError{job.ExitUsage, printable.Error(err)}
	}
	if err != nil && !errors.Is(err, bench.ErrJoin) {
		return exitError{1, printable.Error(err)}
	}
	return err
}
