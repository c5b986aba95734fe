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

// meet brings this node together with the others of a job whose nodes are all started
// by somebody else: as its head, or as one of those that follow.
func (s *session) meetNodes(ctx context.Context) error {
	cfg, err := s.joinConfig()
	if err != nil {
		return err
	}
	head, joined, err := join.Connect(ctx, cfg)
	if err != nil {
		return joinError(err)
	}
	if s.joined = joined; joined != nil {
		return nil
	}
	s.listener = head
	members, err := head.Wait(ctx)
	if err != nil {
		return joinError(err)
	}
	return s.addMembers(members)
}

// meeting is how this node meets the others.
func (s *session) joinConfig() (join.Config, error) {
	j := s.spec.Join
	cfg := join.Config{
		Insecure: j.Insecure, NeverNode0: j.NeverNode0,
		Addr: j.Addr, Port: j.Port, Ports: j.Ports, Timeout: j.Timeout, HostsExist: j.HostsExist,
		RankPerNode: s.spec.IsTask(),
		Notify:      s.settings.notify,
		Self:        join.Hello{ID: j.ID, NumNodes: j.NumNodes, NodeRank: j.NodeRank, NodeID: j.NodeID, Addr: j.Host},
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
		return cfg, &Error{Code: job.ExitUsage, Text: err.Error()}
	}
	cfg.Secret = token[:]
	return cfg, nil
}

// waysToJoin is how nodes come to have a secret, or do without, the best first.
const secretHint = "" +
	"run `gorun token --save` once, where all nodes share your home directory, then the same line again\n" +
	"run `gorun token --out job.token`, and add --token-file job.token on each node, which has a copy of that file\n" +
	"use -H HOST,... in place of --nnodes: gorun then starts the other nodes over SSH, and needs no token\n" +
	"add --insecure-join on each node, if nobody whom you do not trust can reach that port"

// meetError is an error of the launcher's; of a port that is taken it says by whom.
func joinError(err error) error {
	var noSecret *join.NoSecretError
	if errors.As(err, &noSecret) {
		return &Error{Code: job.ExitUsage, Text: printable.Text(err.Error()), Hint: secretHint}
	}
	var taken *join.PortTakenError
	text := err.Error()
	if errors.As(err, &taken) {
		if pid, name, ok := tcpstore.Holder(taken.Port); ok {
			text += fmt.Sprintf(" by %s (pid %d)", name, pid)
		}
	}
	return failure(printable.Text(text))
}

// takeMembers makes nodes of those that have come; this one is node 0.
func (s *session) addMembers(members []*join.Member) error {
	here := &node{host: thisHost, name: hostname(), notify: s.settings.notify}
	s.nodes = append(s.nodes, here)
	s.serveLocally(here)
	for _, m := range members {
		n := &node{host: hosts.Host{Name: printable.Text(m.Hello.Host), Address: m.Hello.Addr}, joined: true}
		if n.name = n.host.Name; s.spec.IsTask() {
			n.host.Name = cmp.Or(printable.Text(m.Hello.NodeID), n.host.Name)
			n.name = fmt.Sprintf("rank %d's gorun on %s", len(s.nodes), n.host.Name)
		}
		n.addresses = append(n.addresses, m.Peer.Addr().Unmap())
		n.notify = func(text string) { s.settings.notify(n.name + ": " + text) }
		n.setLink(wire.NewLink(reach.Queued(m.Conn)), s.memberKind())
		n.listen()
		s.nodes = append(s.nodes, n)
	}
	s.heartbeat.start(&s.spec, s.nodes)
	return s.forEach(func(n *node) error { return n.send(&wire.Ping{Sent: time.Now()}) })
}

// joinedKind is what is known of those that join.
func (s *session) memberKind() wire.Peer {
	if s.listener.IsInsecure() {
		return wire.PeerUnauthenticated
	}
	return wire.PeerJoined
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return thisHost.Name
	}
	return printable.Text(name)
}

// follow has this node do its part of a job of which another is the head.
func (s *session) follow(ctx context.Context) (*Result, error) {
	j := s.joined
	host := printable.Text(j.Host)
	s.reportHead(host)
	signals := make(chan syscall.Signal)
	cfg := s.agentConfig()
	cfg.Health = s.health
	cfg.Stdin, cfg.Stdout, cfg.Stderr = nil, nil, nil
	cfg.Environ, cfg.Own, cfg.Signals = s.localEnviron(), s.localRequest(), signals
	if s.spec.IsTask() {
		s.displayRank(&cfg)
	}
	cfg.Link = socketOf(j.Conn)
	link := wire.NewLink(reach.Queued(j.Conn))
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	over := make(chan struct{})
	defer close(over)
	s.signals.hold()
	s.signals.listen()
	go s.forwardSignals(signals, over)
	err := agent.Serve(link, cfg)
	var end *agent.OverError
	if !errors.As(err, &end) {
		return nil,
			failure(fmt.Sprintf("%s is lost: %s", s.headName(host), printable.Text(headLostText(err))))
	}
	r := &Result{ExitCode: end.Code}
	if e := end.First; e != nil && end.Code != 0 {
		r.ErrorFile = forwardedErrorFile(e.ErrorFile, e.Code, e.Signal)
	}
	if end.Text == "" || s.spec.IsTask() { // there, all write to one place, and node 0 has said it
		return r, nil
	}
	text := fmt.Sprintf("node 0 (%s) says: %s", host, printable.Text(end.Text))
	if s.spec.Join.EngineSignals { // as do nodes of one step
		s.settings.detail(text)
		return r, nil
	}
	r.Cause, r.Text = job.CauseNode, text
	return r, nil
}

// headName is what messages call node 0.
func (s *session) headName(host string) string {
	if s.spec.IsTask() {
		return fmt.Sprintf("rank 0's gorun (%s)", host)
	}
	return fmt.Sprintf("node 0 (%s)", host)
}

// sayFollowed tells who is the head.
func (s *session) reportHead(host string) {
	rank, of := s.joined.NodeRank, s.spec.Join.NumNodes
	if s.spec.IsTask() { // as many lines as ranks
		s.settings.detail(fmt.Sprintf("this is rank %d of %d; %s is the head", rank, of, s.headName(host)))
		return
	}
	tell := s.settings.note
	if s.spec.Join.EngineSignals { // a step of a resource manager's, which has as many lines as nodes otherwise
		tell = s.settings.detail
	}
	tell(fmt.Sprintf("this is node %d of %d; node 0 is %s, which shows what ranks print", rank, of, host))
}

// displayRank has an agent show the output of its only rank.
func (s *session) displayRank(cfg *agent.Config) {
	o := s.spec.Output
	cfg.Display = &agent.Display{Console: s.settings.consoleConfig(o), Role: cmp.Or(s.spec.Role, "default")}
	if o.LogDir != os.DevNull {
		localRank := s.spec.Join.Task.LocalRank
		cfg.Display.Tee = o.Tee.Of(localRank)
		cfg.Display.Hidden = o.Redirect.Of(localRank) &^ o.Tee.Of(localRank)
	}
}

// headLost says in words why the connection to node 0 is over.
func headLostText(err error) string {
	if remote.IsEnd(err) {
		return "its connection has ended: gorun was killed there, or the host went down"
	}
	return err.Error()
}

// ownEnviron is what ranks of this node inherit, with what its own command line adds.
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

// ownExports are options of a gorun inside a rank, which ranks inherit by -x alone.
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

// own is what this node's command line wants to run.
func (s *session) localRequest() *agent.Joined {
	o := &agent.Joined{
		Task: s.spec.Join.Task, Programs: s.hello().Programs, Dir: s.spec.Dir, LogDir: s.spec.Output.LogBase(),
		Role:    cmp.Or(s.spec.Role, "default"),
		Decides: plan.Decides, Accepts: plan.Accepts,
		// ranks are marked by their engine's job
		Reports: func(name string) bool { return plan.Sets(name) || env.TellsEngineJob(name) },
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

// announce tells the nodes that joined how the job ended, and waits until they have
// heard it.
func (s *session) announce(r *Result, err error) {
	over := wire.JobEnded{Code: job.ExitLauncher}
	var first *Error
	switch {
	case r != nil:
		over.Code, over.Text = r.ExitCode, headline(r)
	case errors.As(err, &first):
		over.Code, over.Text = first.Code, first.Text
	default:
		over.Text = err.Error()
	}
	_ = s.forEach(func(n *node) error {
		if n.joined && n.link.Send(&over) == nil {
			timer := time.NewTimer(closeLimit)
			defer timer.Stop()
			select {
			case <-n.lost:
			case <-timer.C:
			}
		}
		return nil
	})
}

// headline is the first line of a report.
func headline(r *Result) string {
	line, _, _ := strings.Cut(Explain(r), "\n")
	return strings.TrimPrefix(line, "gorun: ")
}
