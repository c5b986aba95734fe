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
func ownTable(p *Line) []Option {
	return slices.Concat(p.ownProgram(), inGroup(GroupMeeting, p.ownMeeting()), inGroup(GroupOutput, p.ownOutput()),
		inGroup(GroupEnd, p.ownEnd()), inGroup(GroupLook, p.ownLook()))
}

func (p *Line) ownProgram() []Option {
	return inGroup(GroupProgram, []Option{
		{
			Names: "chdir wdir wd", Value: "DIR", Dirs: true, block: true, Family: familyDir,
			Set: Text(&p.app.Dir), Help: "run ranks in DIR (the current directory)",
		},
		{
			Names: "env-check", Value: "auto|off", Set: Second(&p.Spec.NoEnvCheck),
			Help: "note variables of ranks that NCCL does not read (auto)",
		},
	})
}

func (p *Line) ownMeeting() []Option {
	store := &p.Spec.Store
	return []Option{
		{
			Names: "store", Value: "auto|gorun|rank0", Set: p.setStore,
			Help: "let gorun or rank 0 serve the rendezvous store (auto)",
		},
		{
			Names: "allow-from", Value: "CIDR", Set: p.setAllow,
			Help: "accept store clients from network CIDR; repeatable (this host)",
		},
		{
			Names: "allow-local-users", Set: Switch(&store.AllowLocalUsers),
			Help: "accept every user of this host in the store (you and root)",
		},
		{
			Names: "store-report", Value: "D", Set: Parsed(&store.Report, parseNonzeroTime),
			Help: "report ranks that wait in the store or MPI_Init for D; 0: never (30)",
		},
		{
			Names: "mpi", Value: "auto|pmi1|pmi2|pmix|none", Set: p.setMPI,
			Help: "serve MPI programs by this protocol (auto; torchrun: none)",
		},
		{
			Names: "pmi-port", Set: Switch(&p.Spec.PMIPort),
			Help: "serve PMI at a port, for wrappers that close inherited descriptors",
		},
		{
			Names: "world", Value: "job|app", Set: Second(&p.Spec.WorldPerApp),
			Help: "make one MPI_COMM_WORLD for the job or for each program (job)",
		},
	}
}

func (p *Line) ownOutput() []Option {
	return []Option{
		{
			Names: "stdin", Value: "all|none|RANKS", Family: familyStdin, Set: Parsed(&p.Spec.Stdin, parseStdin),
			Help: "connect standard input to RANKS, such as 1,3 or 0-3 (0)",
		},
		{
			Names: "label", Value: "auto|always|never", Family: familyLabel,
			Help: "put [rank] before lines (auto: on a terminal, with several ranks)",
			Set:  Index(&p.Spec.Output.Label),
		},
		{
			Names: "log-layout", Value: "gorun|torchrun",
			Help: "name files of --log-dir RANK.out or as torchrun does (gorun)", Set: Choice(&p.output.layout),
		},
		{
			Names: "pty", Set: Switch(&p.Spec.Output.PTY),
			Help: "give each rank a pseudo-terminal as its standard streams",
		},
	}
}

func (p *Line) ownEnd() []Option {
	return []Option{
		{
			Names: "timeout", Value: "D", Set: Parsed(&p.Spec.Timeout, ParseDuration),
			Help: "end the job after D: 90 (seconds), 1.5, 30m or 2h45m (never)",
		},
		{
			Names: "grace", Value: "D", Family: familyGrace, Set: p.setGrace("grace"),
			Help: "wait D between the first signal and SIGKILL (10; torchrun: 30)",
		},
		{
			Names: "report", Value: "FILE", Set: p.setReport,
			Help: "write how the job ended to FILE as JSON; - is standard output",
		},
		{
			Names: "events", Value: "FILE|-|fd:N", Set: Text(&p.Events),
			Help: "write what happens as JSON lines; with - ranks print to stderr",
		},
		{
			Names: "metrics-listen", Value: "[HOST]:PORT", Set: Parsed(&p.Metrics, parseListener),
			Help: "serve metrics for Prometheus at PORT of HOST (this host alone)",
		},
		{
			Names: "stop-with", Value: "PID", Set: Parsed(&p.StopWith, AtLeast(1)),
			Help: "stop the job when process PID ends (never)",
		},
	}
}

func (p *Line) ownLook() []Option {
	return []Option{
		{
			Names: "no-registry", Set: Switch(&p.Unlisted),
			Help: "hide the job from gorun ps, top, stop, stacks and logs",
		},
		{
			Names: "no-record", Set: Switch(&p.Unrecorded),
			Help: "keep no record of the job for gorun ps -a, logs and report",
		},
		{
			Names: "dry-run", Family: familyDryRun, Set: Switch(&p.DryRun),
			Help: "print the plan and stop; -v adds the ranks' variables",
		},
		{
			Names: "offline", From: NoVar, Family: familyDryRun, Set: p.setOffline,
			Help: "act as --dry-run, and contact no host: what it has is unknown",
		},
		{Names: "json", Help: "print the plan of --dry-run as JSON", Set: Switch(&p.JSON)},
		{
			Names: "quiet q", Family: familyLoudness, Set: Switch(&p.Quiet),
			Help: "print no notes, only errors and the report on a failure",
		},
		{
			Names: "verbose v", Family: familyLoudness, Counts: true, Set: p.setVerbose,
			Help: "print plan, hosts and timings; -vv adds messages to agents",
		},
		{Names: "version V", From: NoVar, Help: "print the version", Set: Switch(&p.version)},
		{Names: "help h", From: NoVar, Help: "print this help", Set: Switch(&p.help)},
	}
}

// launchTable is what torch.distributed.launch has beside torchrun's options.
func launchTable(p *Line) []Option {
	return []Option{{
		Names: "use-env", Group: GroupProgram, Set: Switch(&p.useEnv),
		Help: "set LOCAL_RANK only, and add no --local-rank=N",
	}}
}

func (p *Line) setOffline(a Arg) error {
	p.Offline = a.On
	p.DryRun = p.DryRun || a.On
	return nil
}

func (p *Line) setReport(a Arg) error {
	if p.DryRun && p.FromVariable() {
		return nil // a plan has no end
	}
	return Text(&p.Report)(a)
}

func (p *Line) setStore(a Arg) error {
	err := Index(&p.Spec.Store.Mode)(a)
	if a.Value == "auto" {
		p.Spec.Store.Mode = p.dialect.store()
	}
	return err
}

// setMPI also takes srun's names of PMIx versions, such as pmix_v3.
func (p *Line) setMPI(a Arg) error {
	if strings.HasPrefix(a.Value, "pmix_v") {
		a.Value = "pmix"
	}
	err := Index(&p.Spec.MPI)(a)
	p.Spec.MPIRequested, p.Spec.MPIWhy = p.Spec.MPI == job.MPIAuto, ""
	return err
}

// setGrace returns the setter of one of the two names of the grace. Different times under both contradict each other.
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

// setVerbose counts -v, or takes the number in a variable.
func (p *Line) setVerbose(a Arg) (err error) {
	if p.FromVariable() {
		p.Verbose, err = parseLevel(a.Value)
	} else if a.On {
		p.Verbose++
	}
	return err
}

// setAllow adds networks. A variable may list several.
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

// parseNetwork parses a network in CIDR notation, or an address. It clears host bits, and unmaps IPv4 in IPv6: peers
// are compared in this form.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New("not a network such as 10.0.0.0/8 or fd00::/8, nor an IP address")
	}
	const mapped = 96 // bits before the IPv4 address in an IPv6 address
	if ip := network.Addr(); ip.Is4In6() && network.Bits() >= mapped {
		network = netip.PrefixFrom(ip.Unmap(), network.Bits()-mapped)
	}
	return network.Masked(), nil
}
