package dialect

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"gorun/launcher/job"
)

// ownTable holds the options that gorun adds in every dialect.
var ownTable = []Option{
	{
		Names: []string{"chdir", "wdir", "wd"}, Group: GroupProgram, Value: "DIR", Dirs: true, block: true, Family: familyDir,
		Help: "working directory of the ranks, -wdir of mpirun (default: this one)",
		Set:  func(p *Line, a Arg) error { return text(&p.app.Dir, a) },
	},
	{
		Names: []string{"store"}, Group: GroupMeeting, Value: "auto|gorun|rank0", Choices: []string{"auto", "gorun", "rank0"},
		Help: "who serves the store at MASTER_ADDR:MASTER_PORT: gorun, or rank 0 for scripts that set both themselves " +
			"(default: auto, which looks into a Python program's text)",
		Set: (*Line).setStore,
	},
	{
		Names: []string{"allow-from"}, Group: GroupMeeting, Value: "CIDR",
		Help: "peers on other hosts whose connections gorun's store accepts: a network such as 10.0.0.0/8, or an address; " +
			"may be repeated (default: this host alone)",
		Set: (*Line).setAllow,
	},
	{
		Names: []string{"allow-local-users"}, Group: GroupMeeting,
		Help: "gorun's store accepts every user of its host (default: the user who starts gorun, and root)",
		Set:  func(p *Line, a Arg) error { p.allowLocalUsers = a.On; return nil },
	},
	{
		Names: []string{"store-report"}, Group: GroupMeeting, Value: "D",
		Help: "say once who waits in the store, or in MPI_Init, and who is missing when nothing has come further for D; 0: " +
			"never (default: 30)",
		Set: (*Line).setStoreReport,
	},
	{
		Names: []string{"mpi"}, Group: GroupMeeting, Value: "auto|pmi1|pmi2|pmix|none",
		Choices: []string{"auto", "pmi1", "pmi2", "pmix", "none"},
		Help: "by which protocols MPI programs find their peers: auto is all of them, none leaves MPI alone (default: " +
			"auto, called torchrun none)",
		Set: (*Line).setMPI,
	},
	{
		Names: []string{"pmi-port"}, Group: GroupMeeting,
		Help: "ranks of MPICH's family come to a port of 127.0.0.1 (PMI_PORT) instead of inheriting a descriptor: for " +
			"wrappers that close those, as Python's subprocess does",
		Set: func(p *Line, a Arg) error { p.Spec.PMIPort = a.On; return nil },
	},
	{
		Names: []string{"world"}, Group: GroupMeeting, Value: "job|app", Choices: []string{"job", "app"},
		Help: "which ranks are one MPI_COMM_WORLD: all, or those of each program by themselves (default: job)",
		Set:  (*Line).setWorld,
	},
	{
		Names: []string{"stdin"}, Group: GroupOutput, Value: "all|none|RANKS", Choices: []string{"all", "none"},
		Family: familyStdin,
		Help:   "which ranks read standard input: one, or several such as 1,3 or 0-3 (default: 0)",
		Set:    func(p *Line, a Arg) (err error) { p.Spec.Stdin, err = parseStdin(a.Value); return err },
	},
	{
		Names: []string{"label"}, Group: GroupOutput, Value: "auto|always|never",
		Choices: []string{"auto", "always", "never"}, Family: familyLabel,
		Help: "put [rank] before each line (default: on a terminal, with more than one rank)",
		Set:  func(p *Line, a Arg) (err error) { p.Spec.Output.Label, err = parseLabel(a.Value); return err },
	},
	{
		Names: []string{"pty"}, Group: GroupOutput,
		Help: "give each rank a pseudo-terminal as its standard streams",
		Set:  func(p *Line, a Arg) error { p.Spec.Output.PTY = a.On; return nil },
	},
	{
		Names: []string{"timeout"}, Group: GroupEnd, Value: "D",
		Help: "end the job with exit code 124 (called mpirun 110, prterun 241, mpiexec 255) when it has run that long; D " +
			"is 90 (seconds), 1.5, 30m, 2h45m",
		Set: func(p *Line, a Arg) (err error) { p.Spec.Timeout, err = ParseDuration(a.Value); return err },
	},
	{
		Names: []string{"grace"}, Group: GroupEnd, Value: "D", Family: familyGrace,
		Help: "time between the signal that asks ranks to end and SIGKILL (default: 10, called torchrun 30)",
		Set:  func(p *Line, a Arg) error { return p.setGrace(a, "grace") },
	},
	{
		Names: []string{"report"}, Group: GroupEnd, Value: "FILE",
		Help: "write how the job ended to FILE, as JSON; - is standard output",
		Set: func(p *Line, a Arg) error {
			if p.DryRun && p.level != levelFlags {
				return nil // a variable's, and nothing ends
			}
			return text(&p.Report, a)
		},
	},
	{
		Names: []string{"no-registry"}, Group: GroupLook,
		Help: "do not list the job among those that gorun ps, top, stop, stacks and logs find",
		Set:  func(p *Line, a Arg) error { p.Unlisted = a.On; return nil },
	},
	{
		Names: []string{"dry-run"}, Group: GroupLook, Family: familyDryRun,
		Help: "print the plan and stop: host, GPU, CPUs, command, environment of each rank, with reasons",
		Set:  func(p *Line, a Arg) error { p.DryRun = a.On; return nil },
	},
	{
		Names: []string{"json"}, Group: GroupLook,
		Help: "print the plan of --dry-run as JSON",
		Set:  func(p *Line, a Arg) error { p.JSON = a.On; return nil },
	},
	{
		Names: []string{"quiet", "q"}, Group: GroupLook, Family: familyLoudness,
		Help: "no remarks; errors and the report on failure stay",
		Set:  func(p *Line, a Arg) error { p.Quiet = a.On; return nil },
	},
	{
		Names: []string{"verbose", "v"}, Group: GroupLook, Family: familyLoudness, Counts: true,
		Help: "say what is decided and why; twice: more",
		Set:  (*Line).setVerbose,
	},
	{
		Names: []string{"version", "V"}, Group: GroupLook, From: NoVar,
		Help: "print the version",
		Set:  func(p *Line, a Arg) error { p.version = a.On; return nil },
	},
	{
		Names: []string{"help", "h"}, Group: GroupLook, From: NoVar,
		Help: "print this",
		Set:  func(p *Line, a Arg) error { p.help = a.On; return nil },
	},
}

// launchTable is what torch.distributed.launch has beside torchrun's options.
var launchTable = []Option{
	{
		Names: []string{"use-env"}, Group: GroupProgram,
		Help: "leave the script's arguments alone: it reads LOCAL_RANK (default: put --local-rank=N before them)",
		Set:  func(p *Line, a Arg) error { p.useEnv = a.On; return nil },
	},
}

// setStoreReport takes 0 for no report at all, which a Spec says by a negative time.
func (p *Line) setStoreReport(a Arg) error {
	d, err := ParseDuration(a.Value)
	if err == nil && d == 0 {
		d = -1
	}
	p.Spec.Store.Report = d
	return err
}

func (p *Line) setStore(a Arg) error {
	switch a.Value {
	case "auto":
		p.Spec.Store.Mode = p.dialect.store
	case "gorun":
		p.Spec.Store.Mode = job.StoreGorun
	case "rank0":
		p.Spec.Store.Mode = job.StoreRank0
	default:
		return errors.New("not one of auto, gorun, rank0")
	}
	return nil
}

// setMPI takes srun's words, too: pmix_v3 and the like are versions of PMIx.
func (p *Line) setMPI(a Arg) error {
	modes := map[string]job.MPIMode{
		"auto": job.MPIAuto, "pmi1": job.MPIPMI1, "pmi2": job.MPIPMI2, "pmix": job.MPIPMIx,
		"none": job.MPINone,
	}
	word := a.Value
	if strings.HasPrefix(word, "pmix_v") {
		word = "pmix"
	}
	mode, ok := modes[word]
	if !ok {
		return errors.New("not one of auto, pmi1, pmi2, pmix, none")
	}
	p.Spec.MPI, p.Spec.MPIAsked, p.Spec.MPIWhy = mode, mode == job.MPIAuto, ""
	return nil
}

func (p *Line) setWorld(a Arg) error {
	p.Spec.WorldPerApp = a.Value == "app"
	return OneOf(a.Value, "job", "app")
}

// setGrace takes the grace by either of its names; different times under both
// contradict each other.
func (p *Line) setGrace(a Arg, name string) error {
	d, err := ParseDuration(a.Value)
	if err != nil {
		return err
	}
	if d == 0 {
		d = noGrace
	}
	if p.grace.name != "" && p.grace.name != name && p.Spec.Grace != d {
		return fmt.Errorf("contradicts %s", p.grace.from)
	}
	p.Spec.Grace, p.grace.name, p.grace.from = d, name, a.From
	return nil
}

// setVerbose Counts: each -v adds one, a variable gives the number.
func (p *Line) setVerbose(a Arg) error {
	if p.level != levelFlags {
		n, err := parseLevel(a.Value)
		p.Verbose = n
		return err
	}
	if a.On {
		p.Verbose++
	}
	return nil
}

// setAllow adds networks; a variable lists several with commas between them.
func (p *Line) setAllow(a Arg) error {
	for _, text := range strings.Split(a.Value, ",") {
		network, err := parseNetwork(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		p.allow = append(p.allow, network)
	}
	return nil
}

// parseNetwork reads a network in CIDR notation or a single address. Bits behind the network's are dropped, and IPv4 in
// IPv6's notation becomes IPv4, which is how peers are compared.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New("not a network such as 10.0.0.0/8 or fd00::/8, nor an IP address")
	}
	const mapped = 96 // bits before the IPv4 address in IPv6's notation of it
	if ip := network.Addr(); ip.Is4In6() && network.Bits() >= mapped {
		network = netip.PrefixFrom(ip.Unmap(), network.Bits()-mapped)
	}
	return network.Masked(), nil
}
