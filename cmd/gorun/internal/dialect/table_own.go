package dialect

import (
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
)

// ownTable holds the options that gorun adds in every dialect.
var ownTable = []Option{
	{
		Names: []string{"chdir", "wdir", "wd"}, Group: GroupProgram, Value: "DIR", dirs: true, block: true, family: familyDir,
		Help: "working directory of the ranks, -wdir of mpirun (default: this one)",
		set:  func(p *parser, a arg) error { return text(&p.app.Dir, a) },
	},
	{
		Names: []string{"store"}, Group: GroupMeeting, Value: "auto|gorun|rank0", Choices: []string{"auto", "gorun", "rank0"},
		Help: "who serves the store at MASTER_ADDR:MASTER_PORT: gorun, or rank 0 for scripts that set both themselves " +
			"(default: auto, which looks into a Python program's text)",
		set: (*parser).setStore,
	},
	{
		Names: []string{"allow-from"}, Group: GroupMeeting, Value: "CIDR",
		Help: "peers on other hosts whose connections gorun's store accepts: a network such as 10.0.0.0/8, or an address; " +
			"may be repeated (default: this host alone)",
		set: (*parser).setAllow,
	},
	{
		Names: []string{"allow-local-users"}, Group: GroupMeeting,
		Help: "gorun's store accepts every user of its host (default: the user who starts gorun, and root)",
		set:  func(p *parser, a arg) error { p.allowLocalUsers = a.on; return nil },
	},
	{
		Names: []string{"store-report"}, Group: GroupMeeting, Value: "D",
		Help: "say once who waits in the store, or in MPI_Init, and who is missing when nothing has come further for D; 0: " +
			"never (default: 30)",
		set: (*parser).setStoreReport,
	},
	{
		Names: []string{"mpi"}, Group: GroupMeeting, Value: "auto|pmi1|pmi2|pmix|none",
		Choices: []string{"auto", "pmi1", "pmi2", "pmix", "none"},
		Help: "by which protocols MPI programs find their peers: auto is all of them, none leaves MPI alone (default: " +
			"auto, called torchrun none)",
		set: (*parser).setMPI,
	},
	{
		Names: []string{"pmi-port"}, Group: GroupMeeting,
		Help: "ranks of MPICH's family come to a port of 127.0.0.1 (PMI_PORT) instead of inheriting a descriptor: for " +
			"wrappers that close those, as Python's subprocess does",
		set: func(p *parser, a arg) error { p.inv.Spec.PMIPort = a.on; return nil },
	},
	{
		Names: []string{"world"}, Group: GroupMeeting, Value: "job|app", Choices: []string{"job", "app"},
		Help: "which ranks are one MPI_COMM_WORLD: all, or those of each program by themselves (default: job)",
		set:  (*parser).setWorld,
	},
	{
		Names: []string{"stdin"}, Group: GroupOutput, Value: "all|none|RANKS", Choices: []string{"all", "none"},
		family: familyStdin,
		Help:   "which ranks read standard input: one, or several such as 1,3 or 0-3 (default: 0)",
		set:    func(p *parser, a arg) (err error) { p.inv.Spec.Stdin, err = parseStdin(a.value); return err },
	},
	{
		Names: []string{"label"}, Group: GroupOutput, Value: "auto|always|never",
		Choices: []string{"auto", "always", "never"}, family: familyLabel,
		Help: "put [rank] before each line (default: on a terminal, with more than one rank)",
		set:  func(p *parser, a arg) (err error) { p.inv.Spec.Output.Label, err = parseLabel(a.value); return err },
	},
	{
		Names: []string{"pty"}, Group: GroupOutput,
		Help: "give each rank a pseudo-terminal as its standard streams",
		set:  func(p *parser, a arg) error { p.inv.Spec.Output.PTY = a.on; return nil },
	},
	{
		Names: []string{"timeout"}, Group: GroupEnd, Value: "D",
		Help: "end the job with exit code 124 (called mpirun 110, prterun 241, mpiexec 255) when it has run that long; D " +
			"is 90 (seconds), 1.5, 30m, 2h45m",
		set: func(p *parser, a arg) (err error) { p.inv.Spec.Timeout, err = parseDuration(a.value); return err },
	},
	{
		Names: []string{"grace"}, Group: GroupEnd, Value: "D", family: familyGrace,
		Help: "time between the signal that asks ranks to end and SIGKILL (default: 10, called torchrun 30)",
		set:  func(p *parser, a arg) error { return p.setGrace(a, "grace") },
	},
	{
		Names: []string{"report"}, Group: GroupEnd, Value: "FILE",
		Help: "write how the job ended to FILE, as JSON; - is standard output",
		set: func(p *parser, a arg) error {
			if p.dryRun && p.level != levelFlags {
				return nil // a variable's, and nothing ends
			}
			return text(&p.inv.Report, a)
		},
	},
	{
		Names: []string{"no-registry"}, Group: GroupLook,
		Help: "do not list the job among those that gorun ps, top, stop, stacks and logs find",
		set:  func(p *parser, a arg) error { p.inv.Unlisted = a.on; return nil },
	},
	{
		Names: []string{"dry-run"}, Group: GroupLook, family: familyDryRun,
		Help: "print the plan and stop: host, GPU, CPUs, command, environment of each rank, with reasons",
		set:  func(p *parser, a arg) error { p.dryRun = a.on; return nil },
	},
	{
		Names: []string{"json"}, Group: GroupLook,
		Help: "print the plan of --dry-run as JSON",
		set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
	{
		Names: []string{"quiet", "q"}, Group: GroupLook, family: familyLoudness,
		Help: "no remarks; errors and the report on failure stay",
		set:  func(p *parser, a arg) error { p.inv.Quiet = a.on; return nil },
	},
	{
		Names: []string{"verbose", "v"}, Group: GroupLook, family: familyLoudness, counts: true,
		Help: "say what is decided and why; twice: more",
		set:  (*parser).setVerbose,
	},
	{
		Names: []string{"version", "V"}, Group: GroupLook, from: varNone,
		Help: "print the version",
		set:  func(p *parser, a arg) error { p.version = a.on; return nil },
	},
	{
		Names: []string{"help", "h"}, Group: GroupLook, from: varNone,
		Help: "print this",
		set:  func(p *parser, a arg) error { p.help = a.on; return nil },
	},
}

// launchTable is what torch.distributed.launch has beside torchrun's options.
var launchTable = []Option{
	{
		Names: []string{"use-env"}, Group: GroupProgram,
		Help: "leave the script's arguments alone: it reads LOCAL_RANK (default: put --local-rank=N before them)",
		set:  func(p *parser, a arg) error { p.useEnv = a.on; return nil },
	},
}

// setStoreReport takes 0 for no report at all, which a Spec says by a negative time.
func (p *parser) setStoreReport(a arg) error {
	d, err := parseDuration(a.value)
	if err == nil && d == 0 {
		d = -1
	}
	p.inv.Spec.Store.Report = d
	return err
}

func (p *parser) setStore(a arg) error {
	switch a.value {
	case "auto":
		p.inv.Spec.Store.Mode = p.dialect.store
	case "gorun":
		p.inv.Spec.Store.Mode = job.StoreGorun
	case "rank0":
		p.inv.Spec.Store.Mode = job.StoreRank0
	default:
		return errors.New("not one of auto, gorun, rank0")
	}
	return nil
}

// setMPI takes srun's words, too: pmix_v3 and the like are versions of PMIx.
func (p *parser) setMPI(a arg) error {
	modes := map[string]job.MPIMode{
		"auto": job.MPIAuto, "pmi1": job.MPIPMI1, "pmi2": job.MPIPMI2, "pmix": job.MPIPMIx,
		"none": job.MPINone,
	}
	word := a.value
	if strings.HasPrefix(word, "pmix_v") {
		word = "pmix"
	}
	mode, ok := modes[word]
	if !ok {
		return errors.New("not one of auto, pmi1, pmi2, pmix, none")
	}
	p.inv.Spec.MPI, p.inv.Spec.MPIAsked, p.inv.Spec.MPIWhy = mode, mode == job.MPIAuto, ""
	return nil
}

func (p *parser) setWorld(a arg) error {
	p.inv.Spec.WorldPerApp = a.value == "app"
	return oneOf(a.value, "job", "app")
}

// setGrace takes the grace by either of its names; different times under both
// contradict each other.
func (p *parser) setGrace(a arg, name string) error {
	d, err := parseDuration(a.value)
	if err != nil {
		return err
	}
	if d == 0 {
		d = noGrace
	}
	if p.grace.name != "" && p.grace.name != name && p.inv.Spec.Grace != d {
		return fmt.Errorf("contradicts %s", p.grace.from)
	}
	p.inv.Spec.Grace, p.grace.name, p.grace.from = d, name, a.from
	return nil
}

// setVerbose counts: each -v adds one, a variable gives the number.
func (p *parser) setVerbose(a arg) error {
	if p.level != levelFlags {
		n, err := parseLevel(a.value)
		p.inv.Verbose = n
		return err
	}
	if a.on {
		p.inv.Verbose++
	}
	return nil
}
