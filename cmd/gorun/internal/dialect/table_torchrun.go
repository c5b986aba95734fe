package dialect

import (
	"errors"
	"fmt"
	"strings"
)

// torchrunTable holds every option of torchrun 2.15, in the order of its own
// help. A test compares it with torchrun's list.
var torchrunTable = []Option{
	{
		Names: []string{"nnodes"}, Group: GroupHosts, Value: "N", From: varBoth,
		Help: "number of nodes; with -H or --hostfile, or in a resource manager's job, the first N of the hosts, else this " +
			"is one of N, each started by itself",
		Set: (*Line).setNodes,
	},
	{
		Names: []string{"nproc-per-node"}, Group: GroupRanks, Value: "N|auto|gpu|cpu",
		Choices: []string{"auto", "gpu", "cpu", "xpu"}, From: varBoth, Family: FamilyCount,
		Help: "ranks on each node: a number, one per GPU, CPU or other device of PyTorch's, or auto: per GPU where there " +
			"are any, else per CPU",
		Set: func(p *Line, a Arg) (err error) {
			was := p.Spec.PerNode
			p.Spec.PerNode, err = parsePerNode(a.Value)
			p.Spec.PerNode.From = a.From
			if p.mpi.perNode.From != "" && p.level == levelFlags &&
				(was.Kind != p.Spec.PerNode.Kind || was.N != p.Spec.PerNode.N) {
				return fmt.Errorf("contradicts %s", was.From)
			}
			return err
		},
	},
	{
		Names: []string{"rdzv-backend"}, Group: GroupMeeting, Value: "static|c10d", Choices: []string{"static", "c10d"},
		From: varBoth,
		Help: "accepted as torchrun has it; gorun serves the rendezvous either way",
		Set:  func(p *Line, a Arg) error { p.backend = a.Value; return checkBackend(a.Value) },
	},
	{
		Names: []string{"rdzv-endpoint"}, Group: GroupMeeting, Value: "HOST[:PORT]", From: varBoth,
		Help: "where the store listens, and several nodes meet (port: 29400 with c10d, else 29500; on one node a free " +
			"one); stronger than the two below",
		Set: (*Line).setEndpoint,
	},
	{
		Names: []string{"rdzv-id"}, Group: GroupMeeting, Value: "ID", From: varBoth,
		Help: "name of the job: TORCHELASTIC_RUN_ID, log directory (default: random)",
		Set:  (*Line).setRunID,
	},
	{
		Names: []string{"rdzv-conf"}, Group: GroupMeeting, Value: "KEY=VALUE,...", From: varBoth,
		Help: "timeout or join_timeout: seconds for all nodes to arrive (default: 900); is_host=1: this is node 0, 0: " +
			"another is; other keys have no effect",
		Set: (*Line).setRdzvConf,
	},
	{
		Names: []string{"standalone"}, Group: GroupMeeting, From: varBoth,
		Help: "one node, a free port, a random id, whatever other options say",
		Set:  func(p *Line, a Arg) error { p.standalone = a.On; return nil },
	},
	{
		Names: []string{"max-restarts"}, Group: GroupEnd, Value: "N", From: varBoth,
		Help: "start all ranks again, with an empty store, up to N times if a rank or an agent fails (0)",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.Restarts.Max, err = ParseAtLeast(a.Value, 0)
			return err
		},
	},
	{
		Names: []string{"monitor-interval"}, Group: GroupAccepted, Value: "SECONDS", From: varBoth,
		Help: "gorun does not poll: it knows at once when a rank ends",
		Set:  func(_ *Line, a Arg) error { _, err := ParseDuration(a.Value); return err },
	},
	{
		Names: []string{"start-method"}, Group: GroupAccepted, Value: "spawn|fork|forkserver",
		Choices: []string{"spawn", "fork", "forkserver"}, From: varBoth,
		Help: "gorun starts ranks by fork and exec",
		Set:  func(_ *Line, a Arg) error { return OneOf(a.Value, "spawn", "fork", "forkserver") },
	},
	{
		Names: []string{"event-log-handler"}, Group: GroupAccepted, Value: "null", Choices: []string{"null"}, From: varBoth,
		Help: "gorun writes no torchelastic events; --report FILE has how the job ended as JSON",
		Set: func(p *Line, a Arg) error {
			if a.Value != "null" {
				p.Note(a.From + " has no effect: gorun writes no torchelastic events; --report FILE has how the job ended as JSON")
			}
			return nil
		},
	},
	{
		Names: []string{"role"}, Group: GroupProgram, Value: "NAME", From: varBoth,
		Help: "ROLE_NAME of the ranks, and the name in labels of --tee (default: default)",
		Set:  func(p *Line, a Arg) error { p.Spec.Role = a.Value; return nil },
	},
	{
		Names: []string{"module", "m"}, Group: GroupProgram, From: varBoth, Family: familyStart, block: true,
		Help: "the program is a Python module, as in python -m",
		Set:  func(p *Line, a Arg) error { p.start.module = a.On; return nil },
	},
	{
		Names: []string{"no-python"}, Group: GroupProgram, From: varBoth, Family: familyStart, block: true,
		Help: "execute the program as it is, whatever its name",
		Set:  func(p *Line, a Arg) error { p.start.noPython = a.On; return nil },
	},
	{
		Names: []string{"run-path"}, Group: GroupProgram, From: varBoth, Family: familyStart, block: true,
		Help: "the program is a Python script, whatever its name; beats -m and --no-python",
		Set:  func(p *Line, a Arg) error { p.start.runPath = a.On; return nil },
	},
	{
		Names: []string{"log-dir"}, Group: GroupOutput, Value: "DIR", Dirs: true, From: varBoth,
		Help: "directory for the files of --tee and --redirects (default: a new one in the temporary directory)",
		Set:  takesLogs(func(p *Line, a Arg) error { return text(&p.Spec.Output.LogDir, a) }),
	},
	{
		Names: []string{"redirects", "r"}, Group: GroupOutput, Value: "WHICH", Attached: true, From: varBoth,
		Help: "write streams to files only: 1 stdout, 2 stderr, 3 both, 0 none; or by local rank: 0:3,1:2",
		Set: takesLogs(func(p *Line, a Arg) (err error) {
			p.Spec.Output.Redirect, err = parseStreams(a.Value)
			return err
		}),
	},
	{
		Names: []string{"tee", "t"}, Group: GroupOutput, Value: "WHICH", Attached: true, From: varBoth,
		Help: "write streams to files and here too; WHICH as above",
		Set: takesLogs(func(p *Line, a Arg) (err error) {
			p.Spec.Output.Tee, err = parseStreams(a.Value)
			return err
		}),
	},
	{
		Names: []string{"log-line-prefix-template"}, Group: GroupOutput, Value: "TEMPLATE", From: varBoth,
		Help: "label of lines of --tee; ${role_name}, ${local_rank}, ${rank}, ${hostname} are filled in",
		Set:  func(p *Line, a Arg) error { p.Spec.Output.Template = a.Value; return nil },
	},
	{
		Names: []string{"local-ranks-filter"}, Group: GroupOutput, Value: "0,1,...", From: varBoth,
		Help: "show only these local ranks; files have all",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.Output.ShowLocalRanks, err = parseLocalRanks(a.Value)
			return err
		},
	},
	{
		Names: []string{"duplicate-stdout-filters"}, Group: GroupOutput, Value: "TEXT,...", From: varBoth,
		Help: "also write lines of --tee with one of these texts to one file, filtered_stdout.log; ,, is a comma",
		Set: takesLogs(func(p *Line, a Arg) error {
			p.Spec.Output.DuplicateStdout = splitTexts(a.Value)
			return nil
		}),
	},
	{
		Names: []string{"duplicate-stderr-filters"}, Group: GroupOutput, Value: "TEXT,...", From: varBoth,
		Help: "the same for standard error",
		Set: takesLogs(func(p *Line, a Arg) error {
			p.Spec.Output.DuplicateStderr = splitTexts(a.Value)
			return nil
		}),
	},
	{
		Names: []string{"node-rank"}, Group: GroupHosts, Value: "N", From: varBoth,
		Help: "number of this node among those that join each other, from 0 on (default: JOB_COMPLETION_INDEX of " +
			"Kubernetes, else who owns the address is node 0, and the others are numbered)",
		Set: (*Line).setNodeRank,
	},
	{
		Names: []string{"master-addr"}, Group: GroupMeeting, Value: "ADDR", From: varBoth,
		Help: "address or name where the store listens, and several nodes meet: one of node 0 (default: 127.0.0.1 on one " +
			"node)",
		Set: func(p *Line, a Arg) (err error) {
			p.master.addr, err = parseAddr(a.Value)
			p.master.addrFrom = a.From
			return err
		},
	},
	{
		Names: []string{"master-port"}, Group: GroupMeeting, Value: "PORT", From: varBoth,
		Help: "TCP port of it (default: a free one on one node, else 29500)",
		Set: func(p *Line, a Arg) (err error) {
			p.master.port, err = ParsePort(a.Value)
			p.master.portFrom = a.From
			p.freePort = p.freePort || err == nil && p.master.port == 0
			return err
		},
	},
	{
		Names: []string{"local-addr"}, Group: GroupHosts, Value: "ADDR", From: varBoth,
		Help: "address of this node for others: of one that joins; on one node the store listens there, unless an option " +
			"names another place",
		Set: func(p *Line, a Arg) (err error) {
			p.local.addr, err = parseAddr(a.Value)
			p.local.addrFrom = a.From
			return err
		},
	},
	{
		Names: []string{"logs-specs"}, Group: GroupAccepted, Value: "default", Choices: []string{"default"}, From: NoVar,
		Help: "log files are as torchrun's default class has them",
		Set: func(_ *Line, a Arg) error {
			if a.Value != "default" {
				return errors.New("gorun loads no Python class; use --log-dir, --redirects, --tee")
			}
			return nil
		},
	},
	{
		Names: []string{"signals-to-handle"}, Group: GroupEnd, Value: "SIG,...", From: varBoth,
		Help: "signals that end the job in order, beside SIGTERM, SIGINT, SIGHUP, which always do (default: called " +
			"torchrun SIGQUIT); others are passed on",
		Set: func(p *Line, a Arg) (err error) {
			p.Spec.SignalsToHandle, err = parseSignals(a.Value)
			return err
		},
	},
	{
		Names: []string{"shutdown-timeout"}, Group: GroupEnd, Value: "SECONDS", From: varBoth, Family: familyGrace,
		Help: "torchrun's name for --grace",
		Set:  func(p *Line, a Arg) error { return p.setGrace(a, "shutdown-timeout") },
	},
	{
		Names: []string{"virtual-local-rank"}, Group: GroupProgram, From: varBoth,
		Help: "every rank has LOCAL_RANK=0 and sees one GPU, its own",
		Set:  func(p *Line, a Arg) error { p.Spec.VirtualLocalRank = a.On; return nil },
	},
	{
		Names: []string{"print-completion"}, Group: GroupLook, Value: "bash|zsh|fish",
		Choices: []string{"bash", "zsh", "fish"}, From: NoVar,
		Help: "print a script that completes options in your shell",
		Set:  (*Line).setCompletion,
	},
}

// setEndpoint takes host[:port]. Without a port a free one is taken: on one host
// nobody has to guess it.
func (p *Line) setEndpoint(a Arg) (err error) {
	p.endpoint = place{}
	if a.Value == "" {
		return nil // torchrun's own default
	}
	p.endpoint.addr, p.endpoint.port, err = ParseEndpoint(a.Value)
	p.endpoint.addrFrom = a.From
	p.freePort = err == nil && p.endpoint.port == 0 && hasPort(a.Value)
	return err
}

// setRunID: the id becomes part of a directory's name.
func (p *Line) setRunID(a Arg) error {
	if strings.ContainsAny(a.Value, "/\x00") {
		return errors.New("the id becomes part of a directory's name, so it cannot have a slash")
	}
	p.runIDFrom = a.From
	return text(&p.Spec.RunID, a)
}

func (p *Line) setCompletion(a Arg) error {
	p.shell = a.Value
	if a.Value == "tcsh" {
		return errors.New("gorun has no completion for tcsh; there is bash, zsh and fish")
	}
	return OneOf(a.Value, Shells...)
}

// checkBackend accepts torchrun's own rendezvous backends.
func checkBackend(name string) error {
	if name != "static" && name != "c10d" {
		return errors.New("gorun serves the rendezvous itself and needs no etcd or plug-in; leave it out")
	}
	return nil
}
