package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Bounds of a check, so that no host can make it last for ever.
const (
	checkedBytes = 1 << 30          // that are read of a program
	filePatience = 20 * time.Second // for a file system to answer
	checkLimit   = 60 * time.Second // for a host to answer one question
)

// CheckHosts looks at the hosts of a wish as a job would find them, at all of them at
// once, and starts no rank. Of the wish, Hosts, Reach, Environ, Dir and the first of
// Apps, if there is one, count. What is wrong with the hosts is in the report; an error
// is an *Error, and means that nothing was looked at.
func CheckHosts(ctx context.Context, spec Spec, options ...Option) (*HostsReport, error) {
	c := newHostsCheck(spec, options)
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	c.judge()
	return &c.report, nil
}

func newHostsCheck(spec Spec, options []Option) *hostsCheck {
	c := &hostsCheck{session: &session{spec: spec, settings: settings{
		stdout: os.Stdout, stderr: os.Stderr,
		askLimit: checkLimit,
	}, endBeat: func() {}}}
	for _, o := range options {
		o(&c.settings)
	}
	if c.spec.Environ == nil {
		c.spec.Environ = env.Inherited()
	}
	c.spec.Environ = withoutSecret(c.spec.Environ)
	return c
}

// run asks all hosts.
func (c *hostsCheck) run(ctx context.Context) error {
	if len(c.spec.Hosts) == 0 {
		return &Error{Code: job.ExitUsage, Text: "no hosts given"}
	}
	if err := c.findExecutable(); err != nil {
		return err
	}
	defer c.close()
	if err := c.reach(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, n := range c.nodes {
			n.giveUp("the check was ended")
		}
	})
	defer stop()
	c.askAll()
	c.failed = slices.Clone(c.found)
	c.tryNetwork(ctx)
	return nil
}

// hostsCheck is one call of CheckHosts, or of Examine.
type hostsCheck struct {
	*session
	report HostsReport
	found  problems
	// patients are what is inspected of the hosts, by place; nil: nothing is.
	patients []*doctor.Host
	failed   problems       // what was found before anybody asked who reaches whom
	networks error          // why it is not known who reaches whom, or who reaches nobody
	flaws    []HostsProblem // what was measured to be wrong with the network
}

// reach starts agents on all hosts; nodes are those of the hosts that are reached.
func (c *hostsCheck) reach(ctx context.Context) error {
	c.report = HostsReport{Version: version.String(), Hosts: make([]HostReport, len(c.spec.Hosts))}
	if len(c.spec.Apps) > 0 {
		c.report.Program = c.spec.Apps[0].Program
	}
	all, errs := make([]*node, len(c.spec.Hosts)), make([]error, len(c.spec.Hosts))
	end := c.showProgress(c.spec.Hosts)
	byEngine := c.spec.ByEngine()
	if byEngine {
		if err := c.gatherByEngine(ctx, c.spec.Hosts); err != nil {
			end()
			return err
		}
	} else if c.settings.reacher == nil {
		c.settings.reacher = c.newShell()
	}
	for i, h := range c.spec.Hosts {
		h.Here = h.Here && !byEngine // as for a job: it comes as all others do
		all[i] = &node{place: i, host: h, name: h.Name, engine: c.engine}
	}
	c.beatOver(func() []*node { return all }) // others may take long, and who hears nothing ends
	var busy sync.WaitGroup
	for i := range all {
		busy.Go(func() { errs[i] = c.connectTo(ctx, all[i]) })
	}
	busy.Wait()
	end()
	for i, n := range all {
		r := c.of(n)
		p := c.progress.host(i)
		*r = HostReport{
			Name: n.name, Here: n.host.Here, Reached: errs[i] == nil, Seconds: p.took.Seconds(),
			Copied: p.Sent > 0,
		}
		if errs[i] != nil {
			r.Step = p.Step
			if e := (*Error)(nil); errors.As(errs[i], &e) && e.step != "" { // what failed may have a name of its own
				r.Step = e.step
			}
			c.fail(n, errs[i])
			continue
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

// of is the report on a node.
func (c *hostsCheck) of(n *node) *HostReport { return &c.report.Hosts[n.place] }

// fail notes errors of a node.
func (c *hostsCheck) fail(n *node, err error) {
	for _, e := range flatten(err) {
		c.found.add(HostsProblem{Hosts: []string{n.name}, Text: e.Text, Hint: e.Hint, general: e.general().Text})
	}
}

// askAll has all nodes say what they are and have.
func (c *hostsCheck) askAll() {
	errs := make([]error, len(c.nodes))
	hello, check := c.questions()
	var busy sync.WaitGroup
	for i, n := range c.nodes {
		busy.Go(func() { errs[i] = c.ask(n, hello, check) })
	}
	busy.Wait()
	for i, n := range c.nodes {
		if errs[i] != nil {
			c.fail(n, errs[i])
		}
	}
}

// questions are what nodes are asked.
func (c *hostsCheck) questions() (wire.Hello, wire.Check) {
	check := wire.Check{Most: checkedBytes, Patience: filePatience}
	hello := c.hello()
	hello.CPUs, hello.GPUs, hello.GPUUsers, hello.Topology = true, true, true, true
	if c.patients != nil { // the inspection finds them, and asks NVIDIA's library, for as long as it has time
		hello.GPUs, hello.GPUUsers, hello.Topology = false, false, false
		c.inspection(&check)
	}
	hello.Ranks = 0
	if len(c.spec.Apps) > 0 {
		check.Programs = true
		check.Dir = c.spec.Apps[0].Dir
	}
	if check.Dir == "" {
		check.Dir = c.spec.Dir
	}
	return hello, check
}

// ask has one node say it. The clock is looked at when the node has nothing else to do.
func (c *hostsCheck) ask(n *node, hello wire.Hello, check wire.Check) error {
	h := c.helloFor(n, hello)
	h.MayStay = filepath.IsAbs(check.Dir)
	var facts wire.Facts
	if err := c.inTime(n, "what it has", func() error { return n.ask(h, &facts) }); err != nil {
		return err
	}
	if facts.Version != wire.Version {
		return otherVersion(n, facts.Version)
	}
	for range clockSamples {
		if err := n.send(&wire.Ping{Sent: time.Now()}); err != nil {
			return err
		}
	}
	var checked wire.Checked
	if n.host.Here && check.Inspect {
		check.Environ = append(check.Environ, c.signsOfContainers()...)
	}
	if err := c.inTime(n, "what ranks would find there", func() error { return n.ask(&check, &checked) }); err != nil {
		return err
	}
	c.take(n, facts, checked)
	if check.Inspect {
		c.takePatient(n, facts, checked)
	}
	if check.Dir == "" {
		check.Dir = c.workingDir()
	}
	c.of(n).Dir = check.Dir
	return nil
}

// clockSamples is how often a clock is read; the fastest answer counts.
const clockSamples = 4

// take completes the report on a node.
func (c *hostsCheck) take(n *node, facts wire.Facts, checked wire.Checked) {
	r := c.of(n)
	r.Hostname, r.Version, r.Executable = printable.Text(facts.Host), printable.Text(checked.Version),
		printable.Text(checked.Executable)
	r.Architecture, r.Kernel = printable.Text(checked.Architecture), printable.Text(checked.Kernel)
	r.CPUs, r.GPUs, r.InfiniBand = facts.Machine.CPUs.Len(), facts.Machine.GPUs, checked.InfiniBand
	for i := range r.GPUs {
		r.GPUs[i].Name = printable.Text(r.GPUs[i].Name)
	}
	if !n.host.Here {
		r.Clock = n.clock.report()
	}
	r.Missing = printable.Text(facts.Dir)
	if r.Missing == "" {
		r.Missing = printable.Text(checked.Dir)
	}
	for _, room := range checked.Rooms {
		room.Path, room.Error = printable.Text(room.Path), printable.Text(room.Error)
		r.Rooms = append(r.Rooms, RoomReport(room))
	}
	for _, l := range checked.Limits {
		r.Limits = append(r.Limits, LimitReport(l))
	}
	r.Program = programReport(facts.Programs, checked.Files)
	r.Notes = append(printables(facts.Notes), printables(facts.Machine.Notes)...)
}

// programReport is what a node said of the first program; nil for nothing.
func programReport(resolved []wire.Resolved, files []wire.Sum) *ProgramReport {
	if len(resolved) == 0 {
		return nil
	}
	p := &ProgramReport{
		Kind: printable.Text(resolved[0].Kind), Path: printable.Text(resolved[0].Path),
		Error: printable.Text(resolved[0].Error),
	}
	p.Hint = printable.Text(resolved[0].Hint)
	if len(files) > 0 && p.Error == "" {
		f := files[0]
		p.Path, p.Size, p.SHA256, p.Error = printable.Text(f.Path), f.Size, printable.Text(f.SHA256), printable.Text(f.Error)
	}
	return p
}

// report is what is known of the clock.
func (c *clock) report() *ClockReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil
	}
	return &ClockReport{Ahead: c.ahead.Seconds(), Uncertainty: (c.travel / 2).Seconds()}
}

// inTime gives the node up that does not answer.
func (c *hostsCheck) inTime(n *node, what string, do func() error) error {
	limit := c.settings.askLimit
	timer := time.AfterFunc(limit, func() { n.giveUp(fmt.Sprintf("it did not say %s within %s", what, limit)) })
	defer timer.Stop()
	return do()
}

// tryNetwork finds out which of the nodes reach which.
func (c *hostsCheck) tryNetwork(ctx context.Context) {
	var wish probeWish
	var probers []prober
	for _, n := range c.nodes {
		select {
		case <-n.lost:
			continue
		default:
		}
		probers = append(probers, n)
		wish.Names, wish.Addresses = append(wish.Names, n.name), append(wish.Addresses, n.host.Address)
	}
	if len(probers) < 2 {
		return
	}
	wish.Fold = hosts.Fold
	ctx, cancel := context.WithTimeout(ctx, c.settings.askLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		for _, n := range c.nodes {
			n.giveUp("it did not say whom it reaches")
		}
	})
	defer stop()
	survey, choice, err := surveyNetwork(ctx, probers, wish)
	c.takeNetwork(survey, choice, err)
}

// takeNetwork notes who reaches whom, and what is wrong with it.
func (c *hostsCheck) takeNetwork(survey probe.Survey, choice probe.Choice, err error) {
	r := networkReport(&survey)
	c.report.Network, c.networks = r, err
	var unreached *probe.UnreachedError
	switch {
	case errors.As(err, &unreached):
		c.found.add(HostsProblem{Hosts: survey.Names, Text: err.Error(), Hint: unreached.Hint()})
	case err != nil:
		r.Error = err.Error()
		c.found.add(HostsProblem{Hosts: survey.Names, Text: "who reaches whom is not known: " + err.Error()})
	default:
		r.Address, r.Reason = choice.Addr.String(), choice.Reason
	}
	for _, f := range survey.Findings(hosts.Fold) {
		p := HostsProblem{Check: f.Check, Text: f.Text, Advice: f.Advice, Hint: f.Hint, Remark: f.Remark}
		for _, node := range f.Nodes {
			p.Hosts = append(p.Hosts, survey.Names[node])
		}
		c.flaws = append(c.flaws, p)
		c.found.add(p)
	}
}
