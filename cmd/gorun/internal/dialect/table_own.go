package dialect

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// ownTable holds the options that gorun adds in every dialect.
func ownTable(p *Line) []Option { return slices.Concat(p.ownProgram(), p.ownEnd()) }

// ownProgram is about the program, and how its ranks meet and print.
func (p *Line) ownProgram() []Option {
	return []Option{
		{
			Names: []string{"chdir", "wdir", "wd"}, Group: GroupProgram, Value: "DIR", Dirs: true, block: true,
			Family: familyDir, Set: Text(&p.app.Dir),
			Help: "working directory of the ranks, -wdir of mpirun (default: this one)",
		},
		{
			Names: []string{"store"}, Group: GroupMeeting, Value: "auto|gorun|rank0", Set: p.setStore,
			Help: "who serves the store at MASTER_ADDR:MASTER_PORT: gorun, or rank 0 for scripts that set both themselves " +
				"(default: auto, which looks into a Python program's text)",
		},
		{
			Names: []string{"allow-from"}, Group: GroupMeeting, Value: "CIDR", Set: p.setAllow,
			Help: "peers on other hosts whose connections gorun's store accepts: a network such as 10.0.0.0/8, or an " +
				"address; may be repeated (default: this host alone)",
		},
		{
			Names: []string{"allow-local-users"}, Group: GroupMeeting, Set: Switch(&p.Spec.Store.AllowLocalUsers),
			Help: "gorun's store accepts every user of its host (default: the user who starts gorun, and root)",
		},
		{
			Names: []string{"store-report"}, Group: GroupMeeting, Value: "D",
			Set: Parsed(&p.Spec.Store.Report, parseNonzeroTime),
			Help: "say once who waits in the store, or in MPI_Init, and who is missing when nothing has come further for D; " +
				"0: never (default: 30)",
		},
		{
			Names: []string{"mpi"}, Group: GroupMeeting, Value: "auto|pmi1|pmi2|pmix|none", Set: p.setMPI,
			Help: "by which protocols MPI programs find their peers: auto is all of them, none leaves MPI alone (default: " +
				"auto, called torchrun none)",
		},
		{
			Names: []string{"pmi-port"}, Group: GroupMeeting, Set: Switch(&p.Spec.PMIPort),
			Help: "ranks of MPICH's family come to a port of 127.0.0.1 (PMI_PORT) instead of inheriting a descriptor: for " +
				"wrappers that close those, as Python's subprocess does",
		},
		{
			Names: []string{"world"}, Group: GroupMeeting, Value: "job|app", Set: Either(&p.Spec.WorldPerApp, "job", "app"),
			Help: "which ranks are one MPI_COMM_WORLD: all, or those of each program by themselves (default: job)",
		},
		{
			Names: []string{"stdin"}, Group: GroupOutput, Value: "all|none|RANKS", Family: familyStdin,
			Help: "which ranks read standard input: one, or several such as 1,3 or 0-3 (default: 0)",
			Set:  Parsed(&p.Spec.Stdin, parseStdin),
		},
		{
			Names: []string{"label"}, Group: GroupOutput, Value: "auto|always|never", Family: familyLabel,
			Help: "put [rank] before each line (default: on a terminal, with more than one rank)",
			Set:  named(&p.Spec.Output.Label, "auto", "always", "never"),
		},
		{
			Names: []string{"pty"}, Group: GroupOutput, Set: Switch(&p.Spec.Output.PTY),
			Help: "give each rank a pseudo-terminal as its standard streams",
		},
	}
}

// ownEnd is about the end of the job, and looking before and after.
func (p *Line) ownEnd() []Option {
	return []Option{
		{
			Names: []string{"timeout"}, Group: GroupEnd, Value: "D", Set: Parsed(&p.Spec.Timeout, ParseDuration),
			Help: "end the job with exit code 124 (called mpirun 110, prterun 241, mpiexec 255) when it has run that long; D " +
				"is 90 (seconds), 1.5, 30m, 2h45m",
		},
		{
			Names: []string{"grace"}, Group: GroupEnd, Value: "D", Family: familyGrace, Set: p.setGrace("grace"),
			Help: "time between the signal that asks ranks to end and SIGKILL (default: 10, called torchrun 30)",
		},
		{
			Names: []string{"report"}, Group: GroupEnd, Value: "FILE", Set: p.setReport,
			Help: "write how the job ended to FILE, as JSON; - is standard output",
		},
		{
			Names: []string{"no-registry"}, Group: GroupLook, Set: Switch(&p.Unlisted),
			Help: "do not list the job among those that gorun ps, top, stop, stacks and logs find",
		},
		{
			Names: []string{"dry-run"}, Group: GroupLook, Family: familyDryRun, Set: Switch(&p.DryRun),
			Help: "print the plan and stop: host, GPU, CPUs, command, environment of each rank, with reasons",
		},
		{Names: []string{"json"}, Group: GroupLook, Help: "print the plan of --dry-run as JSON", Set: Switch(&p.JSON)},
		{
			Names: []string{"quiet", "q"}, Group: GroupLook, Family: familyLoudness, Set: Switch(&p.Quiet),
			Help: "no remarks; errors and the report on failure stay",
		},
		{
			Names: []string{"verbose", "v"}, Group: GroupLook, Family: familyLoudness, Counts: true, Set: p.setVerbose,
			Help: "say what is decided and why; twice: more",
		},
		{Names: []string{"version", "V"}, Group: GroupLook, From: NoVar, Help: "print the version", Set: Switch(&p.version)},
		{Names: []string{"help", "h"}, Group: GroupLook, From: NoVar, Help: "print this", Set: Switch(&p.help)},
	}
}

// launchTable is what torch.distributed.launch has beside torchrun's options.
func launchTable(p *Line) []Option {
	return []Option{{
		Names: []string{"use-env"}, Group: GroupProgram, Set: Switch(&p.useEnv),
		Help: "leave the script's arguments alone: it reads LOCAL_RANK (default: put --local-rank=N before them)",
	}}
}

func (p *Line) setReport(a Arg) error {
	if p.DryRun && p.FromVariable() {
		return nil // nothing ends
	}
	return Text(&p.Report)(a)
}

func (p *Line) setStore(a Arg) error {
	err := named(&p.Spec.Store.Mode, "auto", "gorun", "rank0")(a)
	if a.Value == "auto" {
		p.Spec.Store.Mode = p.dialect.store()
	}
	return err
}

// setMPI takes srun's words, too: pmix_v3 and the like are versions of PMIx.
func (p *Line) setMPI(a Arg) error {
	if strings.HasPrefix(a.Value, "pmix_v") {
		a.Value = "pmix"
	}
	err := named(&p.Spec.MPI, "auto", "pmi1", "pmi2", "pmix", "none")(a)
	p.Spec.MPIRequested, p.Spec.MPIWhy = p.Spec.MPI == job.MPIAuto, ""
	return err
}

// setGrace takes the grace by either of its names; different times under both
// contradict each other.
func (p *Line) setGrace(name string) func(Arg) error {
	return func(a Arg) error {
		d, err := parseNonzeroTime(a.Value)
		if err != nil {
			return err
		}
		if p.graceName != "" && p.graceName != name && p.Spec.Grace != d {
			return fmt.Errorf("contradicts %s", p.graceFrom)
		}
		p.Spec.Grace, p.graceName, p.graceFrom = d, name, a.From
		return nil
	}
}

// setVerbose Counts: each -v adds one, a variable gives the number.
func (p *Line) setVerbose(a Arg) error {
	if p.FromVariable() {
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
		p.Spec.Store.Allow = append(p.Spec.Store.Allow, network)
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
