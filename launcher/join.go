package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/env"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/munge"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/tcpstore"
)

// meetNodes connects the nodes of a job that are started one by one; this one may become the head.
func (s *session) meetNodes(ctx context.Context) error {
	cfg, err := s.joinConfig()
	if err != nil {
		return err
	}
	head, joined, err := join.Connect(ctx, cfg)
	if err != nil {
		return s.joinError(err)
	}
	if s.joined = joined; joined != nil {
		return nil
	}
	s.listener = head
	members, err := head.Wait(ctx)
	if err != nil {
		return s.joinError(err)
	}
	return s.addMembers(members)
}

func (s *session) joinConfig() (join.Config, error) {
	j := s.spec.Join
	cfg := join.Config{
		Insecure: j.Insecure, Rejoins: s.joined != nil, NeverNode0: j.NeverNode0,
		Addr: j.Addr, Port: j.Port, Ports: j.Ports, Timeout: j.Timeout, HostsExist: j.HostsExist,
		RankPerNode: s.spec.IsTask(),
		Notify:      s.settings.notify,
		LastCall:    s.lastCall(),
		Self: join.Hello{
			ID: j.ID, NumNodes: j.NumNodes, MinNodes: s.spec.MinNodes, NodeRank: j.NodeRank, NodeID: j.NodeID, Addr: j.Host,
		},
	}
	if strings.Contains(strings.ReplaceAll(j.From, "_", "-"), "--rdzv-endpoint") {
		cfg.AddrOption = fmt.Sprintf("--rdzv-endpoint ADDR:%d", j.Port)
	}
	if j.Token == "" && j.Munge {
		m, err := munge.Find(j.MungeSocket)
		if err == nil {
			cfg.Sealer = m
			return cfg, nil
		}
		cfg.NoSealer = err.Error()
	}
	text := cmp.Or(j.Token, j.OwnToken)
	if text == "" {
		return cfg, nil
	}
	token, err := job.ParseToken(text)
	if err != nil {
		return cfg, &Error{Code: job.ExitUsage, Text: printable.Error(err)}
	}
	cfg.Secret = token[:]
	return cfg, nil
}

const useHosts = "use `-H HOST,...` in place of `--nnodes`: gorun then starts the other nodes over SSH"

// secretHint lists the ways for nodes to get a secret, or to do without, the best first.
const secretHint = "" +
	"run `gorun token --save` once, where all nodes share your home directory, then the same line again\n" +
	"run `gorun token --out job.token`, and add `--token-file job.token` on each node, which has a copy of that file\n" +
	useHosts + ", and needs no token\n" +
	"add `--insecure-join` on each node, if nobody whom you do not trust can reach that port"

func (s *session) joinError(err error) error {
	if _, ok := errors.AsType[*join.NoSecretError](err); ok {
		hint := secretHint
		if s.spec.Join.EngineSignals { // a step of Slurm has no --nnodes
			const noStep = "run `gorun PROGRAM` in the job, without srun: gorun then starts all nodes"
			hint = strings.Replace(hint, useHosts, noStep, 1)
		}
		return &Error{Code: job.ExitUsage, Text: printable.Text(err.Error()), Hint: hint}
	}
	var taken *join.PortTakenError
	text := printable.Error(err)
	if errors.As(err, &taken) {
		if pid, name, ok := tcpstore.Holder(taken.Port); ok {
			text += fmt.Sprintf(" by %s (pid %d)", name, pid)
		}
	}
	e := failure(printable.Text(text))
	if s.spec.Join.EngineSignals && s.listener == nil {
		e.Hint = "start the step with `srun --kill-on-bad-exit`, so that a node that fails ends the others"
	}
	return e
}

// addMembers adds this node, node 0, and those that joined.
func (s *session) addMembers(members []*join.Member) error {
	here := &node{host: thisHost, name: hostname(), notify: s.settings.notify}
	s.nodes = append(s.nodes, here)
	s.serveLocally(here)
	for _, m := range members {
		s.nodes = append(s.nodes, s.newMember(m))
	}
	if s.size = s.spec.Join.NumNodes; s.spec.MinNodes > 0 {
		s.spec.NumNodes = len(s.nodes)
	}
	s.heartbeat.start(&s.spec, s.nodes)
	return s.forEachNeeded(func(n *node) error { return n.send(&wire.Ping{Sent: time.Now()}) })
}

func (s *session) newMember(m *join.Member) *node {
	n := &node{host: hosts.Host{Name: printable.Text(m.Host), Address: m.Addr}, joined: true}
	if n.name = n.host.Name; s.spec.IsTask() {
		n.host.Name = cmp.Or(printable.Text(m.NodeID), n.host.Name)
		n.name = fmt.Sprintf("rank %d's gorun on %s", len(s.nodes), n.host.Name)
	}
	n.addresses = append(n.addresses, m.Peer.Addr().Unmap())
	n.notify = func(text string) { s.settings.notify(n.name + ": " + text) }
	kind := wire.PeerJoined
	if s.listener.IsInsecure() {
		kind = wire.PeerUnauthenticated
	}
	s.attach(n, wire.NewLink(reach.Queued(m.Conn)), kind)
	return n
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return thisHost.Name
	}
	return printable.Text(name)
}

// followEach runs this node's part of a job, and again where the job may lose its node 0 and another one comes.
func (s *session) followEach(ctx context.Context) (*Result, error) {
	for began := time.Now(); ; {
		r, err := s.follow(ctx)
		sig, lost := syscall.SIGINT, (*Error)(nil)
		if !errors.Is(err, agent.ErrInterrupted) {
			if !errors.As(err, &lost) || !lost.headLost || !s.outlivesHead() {
				return r, err
			}
			s.settings.notify(lost.Text + "; waiting for it to come back")
			sig, err = s.meetAgain(ctx)
		}
		if sig != 0 {
			r = &Result{Elapsed: job.Seconds(time.Since(began))}
			r.After = r.Elapsed
			endedBy(r, job.CauseSignal, sig)
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		if s.joined == nil {
			return s.run(ctx)
		}
	}
}

// outlivesHead reports whether other nodes wait for a node 0 that is lost, or that SIGTERM alone ends.
func (s *session) outlivesHead() bool {
	return s.spec.MinNodes > 0 && s.spec.Restarts.Max > 0 || s.spec.Grow
}

// meetAgain has this node wait for the next node 0, or become it. It returns the signal that ends the wait.
func (s *session) meetAgain(ctx context.Context) (syscall.Signal, error) {
	_ = s.joined.Conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	met := make(chan error, 1)
	go func() { met <- s.meetNodes(ctx) }()
	for {
		select {
		case err := <-met:
			return 0, err
		case sig := <-s.signals.received:
			if number, ok := sig.(syscall.Signal); ok && job.Ends(number) {
				cancel()
				<-met
				return number, nil
			}
		}
	}
}

// follow runs this node's part of a job of which another node is the head.
func (s *session) follow(ctx context.Context) (*Result, error) {
	j := s.joined
	host := printable.Text(j.Host)
	if j.Ended {
		r := &Result{ExitCode: j.Code}
		if j.Code != 0 {
			r.Cause = job.CauseNode
			r.Text = fmt.Sprintf("the job of node 0 (%s) ended with exit code %d while this node waited", host, j.Code)
		}
		return r, nil
	}
	s.reportHead(host)
	signals := make(chan syscall.Signal)
	cfg := s.agentConfig()
	cfg.Health = s.health
	cfg.Stdin, cfg.Stdout, cfg.Stderr = nil, nil, nil
	cfg.Environ, cfg.Joined, cfg.Signals = s.localEnviron(), s.localRequest(), signals
	if s.spec.IsTask() {
		s.displayRank(&cfg)
	}
	defer context.AfterFunc(ctx, func() { _ = j.Conn.Close() })()
	over := make(chan struct{})
	defer close(over)
	s.signals.hold()
	s.signals.listen()
	go s.forwardSignals(signals, over)
	err := agent.ServeConn(j.Conn, cfg)
	if errors.Is(err, agent.ErrInterrupted) {
		return nil, err
	}
	end, ok := errors.AsType[*agent.OverError](err)
	if !ok {
		lost := failure(fmt.Sprintf("%s is lost: %s", s.headName(host), printable.Text(headLostText(err))))
		lost.headLost = ctx.Err() == nil && (remote.IsEnd(err) || errors.Is(err, agent.ErrSilent))
		return nil, lost
	}
	r := &Result{ExitCode: end.Code}
	if e := end.First; e != nil && end.Code != 0 {
		r.ErrorFile = forwardedErrorFile(e.ErrorFile, e.Code, e.Signal)
	}
	if end.Text == "" || s.spec.IsTask() { // all share an output, where node 0 has reported it
		return r, nil
	}
	text := fmt.Sprintf("node 0 (%s) says: %s", host, printable.Text(end.Text))
	if s.spec.Join.EngineSignals { // nodes of one step do, too
		s.settings.detail(text)
		return r, nil
	}
	r.Cause, r.Text = job.CauseNode, text
	return r, nil
}

// headName is node 0's name in messages.
func (s *session) headName(host string) string {
	if s.spec.IsTask() {
		return fmt.Sprintf("rank 0's gorun (%s)", host)
	}
	return fmt.Sprintf("node 0 (%s)", host)
}

func (s *session) reportHead(host string) {
	rank, of := s.joined.NodeRank, s.spec.Join.NumNodes
	if s.spec.IsTask() { // else one line per rank
		s.settings.detail(fmt.Sprintf("this is rank %d of %d; %s is the launcher", rank, of, s.headName(host)))
		return
	}
	report := s.settings.note
	if s.spec.Join.EngineSignals { // else one line per node of the step
		report = s.settings.detail
	}
	this := fmt.Sprintf("this is node %d of %d", rank, of)
	if s.spec.MinNodes > 0 { // nodes that are lost change the numbers
		this = "this node has joined"
	}
	report(fmt.Sprintf("%s; node 0 is %s, which shows what ranks print", this, host))
}

// displayRank has an agent show the output of its only rank.
func (s *session) displayRank(cfg *agent.Config) {
	o := s.spec.Output
	cfg.Display = &agent.Display{Console: s.settings.consoleConfig(o), Role: cmp.Or(s.spec.Role, "default")}
	if o.LogDir != os.DevNull {
		localRank := s.spec.Join.Task.LocalRank
		if o.LabelsTees() {
			cfg.Display.Tee = o.Tee.Of(localRank)
		}
		cfg.Display.Hidden = o.Redirect.Of(localRank) &^ o.Tee.Of(localRank)
	}
}

func headLostText(err error) string {
	if remote.IsEnd(err) {
		return "its connection ended: gorun ended there, or the host went down"
	}
	return printable.Error(err)
}

// localEnviron is what this node's ranks inherit, including exports of its own command line.
func (s *session) localEnviron() []string {
	environ := slices.Clone(s.spec.Environ)
	for _, e := range s.spec.Exports {
		if e.HasValue {
			environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, e.Name+"=") })
			environ = append(environ, e.Name+"="+e.Value)
		}
	}
	return environ
}

// localExports lists GORUN_ variables for a gorun inside a rank, which ranks inherit only by -x.
func (s *session) localExports() (list []string) {
	for _, v := range s.localEnviron() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "GORUN_") && plan.Decides(name) && !plan.Sets(name) && name != env.VarToken &&
			s.exports(name) {
			list = append(list, v)
		}
	}
	return list
}

func (s *session) exports(name string) bool {
	return slices.ContainsFunc(s.spec.Exports, func(e job.Export) bool {
		prefix, isPattern := strings.CutSuffix(e.Name, "*")
		return e.Name == name || isPattern && strings.HasPrefix(name, prefix)
	})
}

// localRequest is what this node's command line wants to run.
func (s *session) localRequest() *agent.Joined {
	o := &agent.Joined{
		Task: s.spec.Join.Task, Programs: s.hello().Programs, Dir: s.spec.Dir, LogDir: s.spec.Output.LogBase(),
		Role: cmp.Or(s.spec.Role, "default"), WarmImports: s.spec.WarmImports,
		Decides: plan.Decides, Accepts: plan.Accepts,
		// these mark processes of the engine's job
		Reports: func(name string) bool { return plan.Sets(name) || env.IdentifiesEngineJob(name) },
		Exports: s.localExports(),
	}
	if out := s.spec.Output; out.StdoutFile != "" || out.StderrFile != "" {
		o.LogNames = []string{out.StdoutFile, out.StderrFile}
	}
	switch s.spec.PerNode.Kind {
	case job.CountFixed:
		o.Ranks = s.spec.PerNode.N
	case job.CountDevice:
		o.Device = s.spec.PerNode.Device
	}
	if o.LogDir != "" {
		o.LogDir = path.Clean(o.LogDir)
	}
	return o
}

// announce tells joined nodes how the job ended, and waits until they have received it. SIGTERM ends node 0 alone
// where others wait for the next one.
func (s *session) announce(r *Result, err error) {
	over := wire.JobEnded{Code: job.ExitLauncher}
	var first *Error
	switch {
	case r != nil && r.Cause == job.CauseSignal && r.Signal == syscall.SIGTERM && s.outlivesHead() &&
		!s.monitor.isStopped():
		_ = s.listener.Close() // before others dial again
		return
	case r != nil:
		over.Code, over.Text = r.ExitCode, headline(r)
	case errors.As(err, &first):
		over.Code, over.Text = first.Code, first.Text
	default:
		over.Text = err.Error()
	}
	if s.listener != nil {
		s.listener.Dismiss(over.Code)
	}
	_ = s.forEach(func(n *node) error {
		if n.joined && n.link.Send(&over) == nil {
			select {
			case <-n.lost:
			case <-time.After(closeLimit):
			}
		}
		return nil
	})
}

// headline returns the first line of a report.
func headline(r *Result) string {
	line, _, _ := strings.Cut(Explain(r), "\n")
	return strings.TrimPrefix(line, "gorun: ")
}
