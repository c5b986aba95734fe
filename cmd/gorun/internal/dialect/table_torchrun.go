package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// torchrunTable holds every option of torchrun 2.15; a test compares both. Those with variables have torchrun's, too.
func torchrunTable(p *Line) []Option {
	rows := slices.Concat(p.torchrunMeeting(), p.torchrunProgram(), inGroup(GroupOutput, p.torchrunLogs()),
		p.torchrunNode())
	for i := range rows {
		rows[i].From = max(rows[i].From, varBoth)
	}
	return rows
}

func (p *Line) torchrunMeeting() []Option {
	return slices.Concat([]Option{
		{
			Names: "nnodes", Group: GroupHosts, Value: "N|MIN:MAX", Set: p.setNodes,
			Help: "use the first N hosts, or join N nodes that are started one by one",
		},
		{
			Names: "nproc-per-node", Group: GroupRanks, Value: "N|auto|gpu|cpu",
			Choices: "auto|gpu|cpu|xpu", Family: FamilyCount, Set: p.setPerNode,
			Help: "start N ranks on each node, or one for each device (auto: GPU or CPU)",
		},
	}, inGroup(GroupMeeting, []Option{
		{
			Names: "rdzv-backend", Value: "static|c10d", Set: p.setBackend,
			Help: "accept torchrun's backends; gorun serves the rendezvous anyway",
		},
		{
			Names: "rdzv-endpoint", Value: "HOST[:PORT]", Set: p.setEndpoint,
			Help: "serve the store at HOST:PORT, where nodes meet (29500; c10d: 29400)",
		},
		{
			Names: "rdzv-id", Value: "ID", Set: p.setRunID,
			Help: "name the job in TORCHELASTIC_RUN_ID and log directories (random)",
		},
		{
			Names: "rdzv-conf", Value: "KEY=VALUE,...", Set: p.setRdzvConf,
			Help: "set timeout or join_timeout (900 seconds), or is_host",
		},
		{
			Names: "standalone", Set: Switch(&p.standalone),
			Help: "run on this host with a free port and a random id",
		},
	}))
}

func (p *Line) torchrunProgram() []Option {
	return append(inGroup(GroupAccepted, []Option{
		{
			Names: "monitor-interval", Value: "SECONDS", Set: Parsed(new(time.Duration), ParseDuration),
			Help: "gorun does not poll: it knows at once when a rank ends",
		},
		{
			Names: "start-method", Value: "spawn|fork|forkserver",
			Help: "gorun starts ranks by fork and exec", Set: Choice(new(string)),
		},
		{Names: "event-log-handler", Value: "null", Set: p.setEventLog, Help: noEvents},
	}), append(inGroup(GroupProgram, []Option{
		{
			Names: "role", Value: "NAME", Set: anyText(&p.Spec.Role),
			Help: "set ROLE_NAME, and the name in labels of --tee (default)",
		},
		{
			Names: "module m", Family: familyStart, block: true, Set: Switch(&p.start.module),
			Help: "run a Python module, as python -m does",
		},
		{
			Names: "no-python", Family: familyStart, block: true, Set: Switch(&p.start.noPython),
			Help: "run the program as it is, whatever its name",
		},
		{
			Names: "run-path", Family: familyStart, block: true, Set: Switch(&p.start.runPath),
			Help: "run a Python script, whatever its name",
		},
	}), Option{
		Names: "max-restarts", Group: GroupEnd, Value: "N", Set: Parsed(&p.Spec.Restarts.Max, AtLeast(0)),
		Help: "restart all ranks up to N times if one fails (0)",
	})...)
}

func (p *Line) torchrunLogs() []Option {
	out := &p.Spec.Output
	return []Option{
		{
			Names: "log-dir", Value: "DIR", Dirs: true, Set: p.isLog(Text(&out.LogDir)),
			Help: "write output to DIR/RANK.out, .err, too (torchrun: in its layout)",
		},
		{
			Names: "redirects r", Value: "WHICH", Attached: true,
			Help: "write streams to files only: 1 stdout, 2 stderr, 3 both, or 0:3,1:2",
			Set:  p.isLog(Parsed(&out.Redirect, parseStreams)),
		},
		{
			Names: "tee t", Value: "WHICH", Attached: true, Set: p.isLog(Parsed(&out.Tee, parseStreams)),
			Help: "write streams to files and the console, as in --redirects",
		},
		{
			Names: "log-line-prefix-template", Value: "TEMPLATE", Set: anyText(&out.Template),
			Help: "label lines of --tee, such as by ${role_name}, ${rank}, ${hostname}",
		},
		{
			Names: "local-ranks-filter", Value: "0,1,...", Set: Parsed(&out.ShowLocalRanks, parseLocalRanks),
			Help: "show only these local ranks; files have all",
		},
		{
			Names: "duplicate-stdout-filters", Value: "TEXT,...",
			Help: "copy lines of --tee that contain TEXT to filtered_stdout.log",
			Set:  p.isLog(Parsed(&out.DuplicateStdout, splitTexts)),
		},
		{
			Names: "duplicate-stderr-filters", Value: "TEXT,...",
			Help: "copy lines of --tee that contain TEXT to filtered_stderr.log",
			Set:  p.isLog(Parsed(&out.DuplicateStderr, splitTexts)),
		},
	}
}

func (p *Line) torchrunNode() []Option {
	return []Option{
		{
			Names: "node-rank", Group: GroupHosts, Value: "N", Set: p.nodeRank.parsed(AtLeast(0)),
			Help: "set the number of this node among those that join (automatic)",
		},
		{
			Names: "master-addr", Group: GroupMeeting, Value: "ADDR", Set: p.masterAddr.parsed(parseAddr),
			Help: "serve the store at ADDR of node 0, where nodes meet (127.0.0.1)",
		},
		{
			Names: "master-port", Group: GroupMeeting, Value: "PORT", Set: p.setMasterPort,
			Help: "serve the store at PORT (29500; on one node a free port)",
		},
		{
			Names: "local-addr", Group: GroupHosts, Value: "ADDR", Set: p.localAddr.parsed(parseAddr),
			Help: "set the address at which other nodes reach this one",
		},
		{
			Names: "logs-specs", Group: GroupAccepted, Value: "default", From: NoVar, Set: defaultLogs,
			Help: "log files are those of torchrun's default class",
		},
		{
			Names: "signals-to-handle", Group: GroupEnd, Value: "SIG,...",
			Help: "stop the job at these signals, too (torchrun: SIGQUIT)",
			Set:  Parsed(&p.Spec.SignalsToHandle, parseSignals),
		},
		{
			Names: "shutdown-timeout", Group: GroupEnd, Value: "SECONDS", Family: familyGrace,
			Help: "act as --grace", Set: p.setGrace("shutdown-timeout"),
		},
		{
			Names: "virtual-local-rank", Group: GroupProgram, Set: Switch(&p.Spec.VirtualLocalRank),
			Help: "set LOCAL_RANK=0 in every rank, and show it only its own GPU",
		},
		{
			Names: "print-completion", Group: GroupLook, Value: "bash|zsh|fish", From: NoVar, Set: p.setCompletion,
			Help: "print a completion script for your shell",
		},
	}
}

const noEvents = "gorun writes no torchelastic events; --report FILE writes how the job ended as JSON"

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
	p.endpoint = optionValue[endpoint]{}
	if a.Value == "" {
		return nil
	}
	addr, port, err := ParseEndpoint(a.Value)
	p.endpoint = optionValue[endpoint]{endpoint{addr, port}, a.From}
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
	err := Choice(&p.shell)(a)
	if a.Value == "tcsh" {
		err = errors.New("gorun has no completion for tcsh; there is bash, zsh and fish")
	}
	return err
}
