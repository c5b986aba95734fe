package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// torchrunTable holds every option of torchrun 2.15, in the order of its own help. A test compares it with torchrun's
// list. All have torchrun's variables, too, unless they have none.
func torchrunTable(p *Line) []Option {
	rows := slices.Concat(p.torchrunMeeting(), p.torchrunProgram(), p.torchrunLogs(), p.torchrunNode())
	for i := range rows {
		if rows[i].From == varGorun {
			rows[i].From = varBoth
		}
	}
	return rows
}

// torchrunMeeting is about how many ranks there are, and how they meet.
func (p *Line) torchrunMeeting() []Option {
	return []Option{
		{
			Names: []string{"nnodes"}, Group: GroupHosts, Value: "N", Set: p.setNodes,
			Help: "number of nodes; with -H or --hostfile, or in a resource manager's job, the first N of the hosts, else " +
				"this is one of N, each started by itself",
		},
		{
			Names: []string{"nproc-per-node"}, Group: GroupRanks, Value: "N|auto|gpu|cpu",
			Choices: []string{"auto", "gpu", "cpu", "xpu"}, Family: FamilyCount, Set: p.setPerNode,
			Help: "ranks on each node: a number, one per GPU, CPU or other device of PyTorch's, or auto: per GPU where there " +
				"are any, else per CPU",
		},
		{
			Names: []string{"rdzv-backend"}, Group: GroupMeeting, Value: "static|c10d", Set: p.setBackend,
			Help: "accepted as torchrun has it; gorun serves the rendezvous either way",
		},
		{
			Names: []string{"rdzv-endpoint"}, Group: GroupMeeting, Value: "HOST[:PORT]", Set: p.setEndpoint,
			Help: "where the store listens, and several nodes meet (port: 29400 with c10d, else 29500; on one node a free " +
				"one); stronger than the two below",
		},
		{
			Names: []string{"rdzv-id"}, Group: GroupMeeting, Value: "ID", Set: p.setRunID,
			Help: "name of the job: TORCHELASTIC_RUN_ID, log directory (default: random)",
		},
		{
			Names: []string{"rdzv-conf"}, Group: GroupMeeting, Value: "KEY=VALUE,...", Set: p.setRdzvConf,
			Help: "timeout or join_timeout: seconds for all nodes to arrive (default: 900); is_host=1: this is node 0, 0: " +
				"another is; other keys have no effect",
		},
		{
			Names: []string{"standalone"}, Group: GroupMeeting, Set: Switch(&p.standalone),
			Help: "one node, a free port, a random id, whatever other options say",
		},
	}
}

// torchrunProgram is about restarts, and what is started.
func (p *Line) torchrunProgram() []Option {
	return []Option{
		{
			Names: []string{"max-restarts"}, Group: GroupEnd, Value: "N", Set: Parsed(&p.Spec.Restarts.Max, AtLeast(0)),
			Help: "start all ranks again, with an empty store, up to N times if a rank or an agent fails (0)",
		},
		{
			Names: []string{"monitor-interval"}, Group: GroupAccepted, Value: "SECONDS",
			Help: "gorun does not poll: it knows at once when a rank ends",
			Set:  Parsed(new(time.Duration), ParseDuration),
		},
		{
			Names: []string{"start-method"}, Group: GroupAccepted, Value: "spawn|fork|forkserver",
			Help: "gorun starts ranks by fork and exec",
			Set:  named(new(uint8), "spawn", "fork", "forkserver"),
		},
		{
			Names: []string{"event-log-handler"}, Group: GroupAccepted, Value: "null", Set: p.setEventLog,
			Help: noEvents,
		},
		{
			Names: []string{"role"}, Group: GroupProgram, Value: "NAME", Set: anyText(&p.Spec.Role),
			Help: "ROLE_NAME of the ranks, and the name in labels of --tee (default: default)",
		},
		{
			Names: []string{"module", "m"}, Group: GroupProgram, Family: familyStart, block: true,
			Help: "the program is a Python module, as in python -m", Set: Switch(&p.start.module),
		},
		{
			Names: []string{"no-python"}, Group: GroupProgram, Family: familyStart, block: true,
			Help: "execute the program as it is, whatever its name", Set: Switch(&p.start.noPython),
		},
		{
			Names: []string{"run-path"}, Group: GroupProgram, Family: familyStart, block: true,
			Help: "the program is a Python script, whatever its name; beats -m and --no-python",
			Set:  Switch(&p.start.runPath),
		},
	}
}

// torchrunLogs is about the files of streams, and what is shown of them.
func (p *Line) torchrunLogs() []Option {
	out := &p.Spec.Output
	return []Option{
		{
			Names: []string{"log-dir"}, Group: GroupOutput, Value: "DIR", Dirs: true, Set: p.isLog(Text(&out.LogDir)),
			Help: "directory for the files of --tee and --redirects (default: a new one in the temporary directory)",
		},
		{
			Names: []string{"redirects", "r"}, Group: GroupOutput, Value: "WHICH", Attached: true,
			Help: "write streams to files only: 1 stdout, 2 stderr, 3 both, 0 none; or by local rank: 0:3,1:2",
			Set:  p.isLog(Parsed(&out.Redirect, parseStreams)),
		},
		{
			Names: []string{"tee", "t"}, Group: GroupOutput, Value: "WHICH", Attached: true,
			Help: "write streams to files and here too; WHICH as above", Set: p.isLog(Parsed(&out.Tee, parseStreams)),
		},
		{
			Names: []string{"log-line-prefix-template"}, Group: GroupOutput, Value: "TEMPLATE", Set: anyText(&out.Template),
			Help: "label of lines of --tee; ${role_name}, ${local_rank}, ${rank}, ${hostname} are filled in",
		},
		{
			Names: []string{"local-ranks-filter"}, Group: GroupOutput, Value: "0,1,...",
			Help: "show only these local ranks; files have all", Set: Parsed(&out.ShowLocalRanks, parseLocalRanks),
		},
		{
			Names: []string{"duplicate-stdout-filters"}, Group: GroupOutput, Value: "TEXT,...",
			Help: "also write lines of --tee with one of these texts to one file, filtered_stdout.log; ,, is a comma",
			Set:  p.isLog(Parsed(&out.DuplicateStdout, splitTexts)),
		},
		{
			Names: []string{"duplicate-stderr-filters"}, Group: GroupOutput, Value: "TEXT,...",
			Help: "the same for standard error", Set: p.isLog(Parsed(&out.DuplicateStderr, splitTexts)),
		},
	}
}

// torchrunNode is about this node and its end.
func (p *Line) torchrunNode() []Option {
	return []Option{
		{
			Names: []string{"node-rank"}, Group: GroupHosts, Value: "N", Set: p.nodeRank.parsed(AtLeast(0)),
			Help: "number of this node among those that join each other, from 0 on (default: JOB_COMPLETION_INDEX of " +
				"Kubernetes, else who owns the address is node 0, and the others are numbered)",
		},
		{
			Names: []string{"master-addr"}, Group: GroupMeeting, Value: "ADDR",
			Set: p.masterAddr.parsed(parseAddr),
			Help: "address or name where the store listens, and several nodes meet: one of node 0 (default: 127.0.0.1 on one " +
				"node)",
		},
		{
			Names: []string{"master-port"}, Group: GroupMeeting, Value: "PORT", Set: p.setMasterPort,
			Help: "TCP port of it (default: a free one on one node, else 29500)",
		},
		{
			Names: []string{"local-addr"}, Group: GroupHosts, Value: "ADDR",
			Set: p.localAddr.parsed(parseAddr),
			Help: "address of this node for others: of one that joins; on one node the store listens there, unless an option " +
				"names another place",
		},
		{
			Names: []string{"logs-specs"}, Group: GroupAccepted, Value: "default", From: NoVar, Set: defaultLogs,
			Help: "log files are as torchrun's default class has them",
		},
		{
			Names: []string{"signals-to-handle"}, Group: GroupEnd, Value: "SIG,...",
			Help: "signals that end the job in order, beside SIGTERM, SIGINT, SIGHUP, which always do (default: called " +
				"torchrun SIGQUIT); others are passed on",
			Set: Parsed(&p.Spec.SignalsToHandle, parseSignals),
		},
		{
			Names: []string{"shutdown-timeout"}, Group: GroupEnd, Value: "SECONDS", Family: familyGrace,
			Help: "torchrun's name for --grace", Set: p.setGrace("shutdown-timeout"),
		},
		{
			Names: []string{"virtual-local-rank"}, Group: GroupProgram, Set: Switch(&p.Spec.VirtualLocalRank),
			Help: "every rank has LOCAL_RANK=0 and sees one GPU, its own",
		},
		{
			Names: []string{"print-completion"}, Group: GroupLook, Value: "bash|zsh|fish", From: NoVar, Set: p.setCompletion,
			Help: "print a script that completes options in your shell",
		},
	}
}

// noEvents is why --event-log-handler has nothing to do.
const noEvents = "gorun writes no torchelastic events; --report FILE has how the job ended as JSON"

func (p *Line) setEventLog(a Arg) error {
	if a.Value != "null" {
		p.Note(a.From + " has no effect: " + noEvents)
	}
	return nil
}

func defaultLogs(a Arg) error {
	if a.Value != "default" {
		return errors.New("gorun loads no Python class; use --log-dir, --redirects, --tee")
	}
	return nil
}

// setPerNode takes torchrun's number of ranks. It may equal a number given in another way.
func (p *Line) setPerNode(a Arg) (err error) {
	was, now := p.Spec.PerNode, &p.Spec.PerNode
	*now, err = parsePerNode(a.Value)
	now.From = a.From
	if p.perNodeFrom != "" && !p.FromVariable() && (was.Kind != now.Kind || was.N != now.N) {
		return fmt.Errorf("contradicts %s", was.From)
	}
	return err
}

// setBackend takes torchrun's own rendezvous backends.
func (p *Line) setBackend(a Arg) error {
	if p.backend = a.Value; a.Value != "static" && a.Value != "c10d" {
		return errors.New("gorun serves the rendezvous itself and needs no etcd or plug-in; leave it out")
	}
	return nil
}

func (p *Line) setMasterPort(a Arg) error {
	err := p.masterPort.parsed(ParsePort)(a)
	p.freePort = p.freePort || err == nil && p.masterPort.value == 0
	return err
}

// setEndpoint takes HOST[:PORT]; empty, torchrun's default, it is as if not given.
func (p *Line) setEndpoint(a Arg) error {
	p.endpoint = sourced[endpoint]{}
	if a.Value == "" {
		return nil
	}
	addr, port, err := ParseEndpoint(a.Value)
	p.endpoint = sourced[endpoint]{endpoint{addr, port}, a.From}
	_, rest := cutPort(a.Value)
	p.freePort = err == nil && port == 0 && rest != ""
	return err
}

func (p *Line) setRunID(a Arg) error {
	if strings.ContainsAny(a.Value, "/\x00") {
		return errors.New("the id becomes part of a directory's name, so it cannot have a slash")
	}
	return withFrom(&p.runIDFrom, Text(&p.Spec.RunID))(a)
}

func (p *Line) setCompletion(a Arg) error {
	p.shell = a.Value
	if a.Value == "tcsh" {
		return errors.New("gorun has no completion for tcsh; there is bash, zsh and fish")
	}
	return OneOf(a.Value, Shells...)
}
