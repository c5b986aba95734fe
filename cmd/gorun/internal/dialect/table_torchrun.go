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
		Names: []string{"nnodes"}, Group: GroupHosts, Value: "N", from: varBoth,
		Help: "number of nodes; with -H or --hostfile, or in a resource manager's job, the first N of the hosts, else this " +
			"is one of N, each started by itself",
		set: (*parser).setNodes,
	},
	{
		Names: []string{"nproc-per-node"}, Group: GroupRanks, Value: "N|auto|gpu|cpu",
		Choices: []string{"auto", "gpu", "cpu", "xpu"}, from: varBoth, family: familyCount,
		Help: "ranks on each node: a number, one per GPU, CPU or other device of PyTorch's, or auto: per GPU where there " +
			"are any, else per CPU",
		set: func(p *parser, a arg) (err error) {
			was := p.inv.Spec.PerNode
			p.inv.Spec.PerNode, err = parsePerNode(a.value)
			p.inv.Spec.PerNode.From = a.from
			if p.mpi.perNode.from != "" && p.level == levelFlags &&
				(was.Kind != p.inv.Spec.PerNode.Kind || was.N != p.inv.Spec.PerNode.N) {
				return fmt.Errorf("contradicts %s", was.From)
			}
			return err
		},
	},
	{
		Names: []string{"rdzv-backend"}, Group: GroupMeeting, Value: "static|c10d", Choices: []string{"static", "c10d"},
		from: varBoth,
		Help: "accepted as torchrun has it; gorun serves the rendezvous either way",
		set:  func(p *parser, a arg) error { p.backend = a.value; return checkBackend(a.value) },
	},
	{
		Names: []string{"rdzv-endpoint"}, Group: GroupMeeting, Value: "HOST[:PORT]", from: varBoth,
		Help: "where the store listens, and several nodes meet (port: 29400 with c10d, else 29500; on one node a free " +
			"one); stronger than the two below",
		set: (*parser).setEndpoint,
	},
	{
		Names: []string{"rdzv-id"}, Group: GroupMeeting, Value: "ID", from: varBoth,
		Help: "name of the job: TORCHELASTIC_RUN_ID, log directory (default: random)",
		set:  (*parser).setRunID,
	},
	{
		Names: []string{"rdzv-conf"}, Group: GroupMeeting, Value: "KEY=VALUE,...", from: varBoth,
		Help: "timeout or join_timeout: seconds for all nodes to arrive (default: 900); is_host=1: this is node 0, 0: " +
			"another is; other keys have no effect",
		set: (*parser).setRdzvConf,
	},
	{
		Names: []string{"standalone"}, Group: GroupMeeting, from: varBoth,
		Help: "one node, a free port, a random id, whatever other options say",
		set:  func(p *parser, a arg) error { p.standalone = a.on; return nil },
	},
	{
		Names: []string{"max-restarts"}, Group: GroupEnd, Value: "N", from: varBoth,
		Help: "start all ranks again, with an empty store, up to N times if a rank or an agent fails (0)",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Restarts.Max, err = parseAtLeast(a.value, 0)
			return err
		},
	},
	{
		Names: []string{"monitor-interval"}, Group: GroupAccepted, Value: "SECONDS", from: varBoth,
		Help: "gorun does not poll: it knows at once when a rank ends",
		set:  func(_ *parser, a arg) error { _, err := parseDuration(a.value); return err },
	},
	{
		Names: []string{"start-method"}, Group: GroupAccepted, Value: "spawn|fork|forkserver",
		Choices: []string{"spawn", "fork", "forkserver"}, from: varBoth,
		Help: "gorun starts ranks by fork and exec",
		set:  func(_ *parser, a arg) error { return oneOf(a.value, "spawn", "fork", "forkserver") },
	},
	{
		Names: []string{"event-log-handler"}, Group: GroupAccepted, Value: "null", Choices: []string{"null"}, from: varBoth,
		Help: "gorun writes no torchelastic events; --report FILE has how the job ended as JSON",
		set: func(p *parser, a arg) error {
			if a.value != "null" {
				p.note(a.from + " has no effect: gorun writes no torchelastic events; --report FILE has how the job ended as JSON")
			}
			return nil
		},
	},
	{
		Names: []string{"role"}, Group: GroupProgram, Value: "NAME", from: varBoth,
		Help: "ROLE_NAME of the ranks, and the name in labels of --tee (default: default)",
		set:  func(p *parser, a arg) error { p.inv.Spec.Role = a.value; return nil },
	},
	{
		Names: []string{"module", "m"}, Group: GroupProgram, from: varBoth, family: familyStart, block: true,
		Help: "the program is a Python module, as in python -m",
		set:  func(p *parser, a arg) error { p.start.module = a.on; return nil },
	},
	{
		Names: []string{"no-python"}, Group: GroupProgram, from: varBoth, family: familyStart, block: true,
		Help: "execute the program as it is, whatever its name",
		set:  func(p *parser, a arg) error { p.start.noPython = a.on; return nil },
	},
	{
		Names: []string{"run-path"}, Group: GroupProgram, from: varBoth, family: familyStart, block: true,
		Help: "the program is a Python script, whatever its name; beats -m and --no-python",
		set:  func(p *parser, a arg) error { p.start.runPath = a.on; return nil },
	},
	{
		Names: []string{"log-dir"}, Group: GroupOutput, Value: "DIR", dirs: true, from: varBoth,
		Help: "directory for the files of --tee and --redirects (default: a new one in the temporary directory)",
		set:  takesLogs(func(p *parser, a arg) error { return text(&p.inv.Spec.Output.LogDir, a) }),
	},
	{
		Names: []string{"redirects", "r"}, Group: GroupOutput, Value: "WHICH", attached: true, from: varBoth,
		Help: "write streams to files only: 1 stdout, 2 stderr, 3 both, 0 none; or by local rank: 0:3,1:2",
		set: takesLogs(func(p *parser, a arg) (err error) {
			p.inv.Spec.Output.Redirect, err = parseStreams(a.value)
			return err
		}),
	},
	{
		Names: []string{"tee", "t"}, Group: GroupOutput, Value: "WHICH", attached: true, from: varBoth,
		Help: "write streams to files and here too; WHICH as above",
		set: takesLogs(func(p *parser, a arg) (err error) {
			p.inv.Spec.Output.Tee, err = parseStreams(a.value)
			return err
		}),
	},
	{
		Names: []string{"log-line-prefix-template"}, Group: GroupOutput, Value: "TEMPLATE", from: varBoth,
		Help: "label of lines of --tee; ${role_name}, ${local_rank}, ${rank}, ${hostname} are filled in",
		set:  func(p *parser, a arg) error { p.inv.Spec.Output.Template = a.value; return nil },
	},
	{
		Names: []string{"local-ranks-filter"}, Group: GroupOutput, Value: "0,1,...", from: varBoth,
		Help: "show only these local ranks; files have all",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Output.ShowLocalRanks, err = parseLocalRanks(a.value)
			return err
		},
	},
	{
		Names: []string{"duplicate-stdout-filters"}, Group: GroupOutput, Value: "TEXT,...", from: varBoth,
		Help: "also write lines of --tee with one of these texts to one file, filtered_stdout.log; ,, is a comma",
		set: takesLogs(func(p *parser, a arg) error {
			p.inv.Spec.Output.DuplicateStdout = splitTexts(a.value)
			return nil
		}),
	},
	{
		Names: []string{"duplicate-stderr-filters"}, Group: GroupOutput, Value: "TEXT,...", from: varBoth,
		Help: "the same for standard error",
		set: takesLogs(func(p *parser, a arg) error {
			p.inv.Spec.Output.DuplicateStderr = splitTexts(a.value)
			return nil
		}),
	},
	{
		Names: []string{"node-rank"}, Group: GroupHosts, Value: "N", from: varBoth,
		Help: "number of this node among those that join each other, from 0 on (default: JOB_COMPLETION_INDEX of " +
			"Kubernetes, else who owns the address is node 0, and the others are numbered)",
		set: (*parser).setNodeRank,
	},
	{
		Names: []string{"master-addr"}, Group: GroupMeeting, Value: "ADDR", from: varBoth,
		Help: "address or name where the store listens, and several nodes meet: one of node 0 (default: 127.0.0.1 on one " +
			"node)",
		set: func(p *parser, a arg) (err error) {
			p.master.addr, err = parseAddr(a.value)
			p.master.addrFrom = a.from
			return err
		},
	},
	{
		Names: []string{"master-port"}, Group: GroupMeeting, Value: "PORT", from: varBoth,
		Help: "TCP port of it (default: a free one on one node, else 29500)",
		set: func(p *parser, a arg) (err error) {
			p.master.port, err = parsePort(a.value)
			p.master.portFrom = a.from
			p.freePort = p.freePort || err == nil && p.master.port == 0
			return err
		},
	},
	{
		Names: []string{"local-addr"}, Group: GroupHosts, Value: "ADDR", from: varBoth,
		Help: "address of this node for others: of one that joins; on one node the store listens there, unless an option " +
			"names another place",
		set: func(p *parser, a arg) (err error) {
			p.local.addr, err = parseAddr(a.value)
			p.local.addrFrom = a.from
			return err
		},
	},
	{
		Names: []string{"logs-specs"}, Group: GroupAccepted, Value: "default", Choices: []string{"default"}, from: varNone,
		Help: "log files are as torchrun's default class has them",
		set: func(_ *parser, a arg) error {
			if a.value != "default" {
				return errors.New("gorun loads no Python class; use --log-dir, --redirects, --tee")
			}
			return nil
		},
	},
	{
		Names: []string{"signals-to-handle"}, Group: GroupEnd, Value: "SIG,...", from: varBoth,
		Help: "signals that end the job in order, beside SIGTERM, SIGINT, SIGHUP, which always do (default: called " +
			"torchrun SIGQUIT); others are passed on",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.SignalsToHandle, err = parseSignals(a.value)
			return err
		},
	},
	{
		Names: []string{"shutdown-timeout"}, Group: GroupEnd, Value: "SECONDS", from: varBoth, family: familyGrace,
		Help: "torchrun's name for --grace",
		set:  func(p *parser, a arg) error { return p.setGrace(a, "shutdown-timeout") },
	},
	{
		Names: []string{"virtual-local-rank"}, Group: GroupProgram, from: varBoth,
		Help: "every rank has LOCAL_RANK=0 and sees one GPU, its own",
		set:  func(p *parser, a arg) error { p.inv.Spec.VirtualLocalRank = a.on; return nil },
	},
	{
		Names: []string{"print-completion"}, Group: GroupLook, Value: "bash|zsh|fish",
		Choices: []string{"bash", "zsh", "fish"}, from: varNone,
		Help: "print a script that completes options in your shell",
		set:  (*parser).setCompletion,
	},
}

// setEndpoint takes host[:port]. Without a port a free one is taken: on one host
// nobody has to guess it.
func (p *parser) setEndpoint(a arg) (err error) {
	p.endpoint = place{}
	if a.value == "" {
		return nil // torchrun's own default
	}
	p.endpoint.addr, p.endpoint.port, err = parseEndpoint(a.value)
	p.endpoint.addrFrom = a.from
	p.freePort = err == nil && p.endpoint.port == 0 && hasPort(a.value)
	return err
}

// setRunID: the id becomes part of a directory's name.
func (p *parser) setRunID(a arg) error {
	if strings.ContainsAny(a.value, "/\x00") {
		return errors.New("the id becomes part of a directory's name, so it cannot have a slash")
	}
	p.runIDFrom = a.from
	return text(&p.inv.Spec.RunID, a)
}

func (p *parser) setCompletion(a arg) error {
	p.inv.Shell = a.value
	if a.value == "tcsh" {
		return errors.New("gorun has no completion for tcsh; there is bash, zsh and fish")
	}
	return oneOf(a.value, shells...)
}

// checkBackend accepts torchrun's own rendezvous backends.
func checkBackend(name string) error {
	if name != "static" && name != "c10d" {
		return errors.New("gorun serves the rendezvous itself and needs no etcd or plug-in; leave it out")
	}
	return nil
}
