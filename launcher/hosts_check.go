package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/doctor"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Limits of a check, so that no host can delay it for ever.
const (
	fileTimeout   = 20 * time.Second // for a file system to answer
	answerTimeout = 60 * time.Second // for a host to answer one request
)

// basics are the cheap checks of package doctor, which hosts check makes.
var basics = []string{
	"gorun-version", doctor.Skipped, "clock", "program", "program-differs", "architecture", "room",
	"memlock", "nofile", "nproc", "gpu-count", "gpu-used",
}

// CheckHosts looks at the hosts of a spec as a job would find them, at all in parallel, and starts
// no rank. It uses Hosts, Reach, Environ, Dir and the first of Apps, if any. Problems of hosts are
// in the report; an error is an *Error and means that no host was looked at.
func CheckHosts(ctx context.Context, spec Spec, o Options) (*HostsReport, error) {
	c := newHostsCheck(spec, o)
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	c.judge()
	return &c.report, nil
}

// judge lists the problems: of hosts, then of the network, then notes.
func (c *hostsCheck) judge() {
	for _, f := range append(c.noAddress, c.network.Problems...) {
		c.problems.add(f, f)
	}
	for _, f := range doctor.Diagnose(c.cluster(), basics...) {
		p := doctor.Problem{Hosts: f.Hosts, Text: f.Text, Hint: f.Fix, Note: f.Severity == doctor.Note}
		c.problems.add(p, p)
	}
	for _, h := range c.report.Hosts {
		for _, note := range h.Notes {
			p := doctor.Problem{Hosts: []string{h.Name}, Text: note, Note: true}
			c.problems.add(p, p)
		}
	}
	c.report.Problems = []doctor.Problem{} // [] as JSON
	for _, notes := range []bool{false, true} {
		for _, p := range c.problems.list {
			if p.Note == notes {
				c.report.Problems = append(c.report.Problems, p)
			}
		}
	}
}

func newHostsCheck(spec Spec, o Options) *hostsCheck {
	o.answerLimit = cmp.Or(o.answerLimit, answerTimeout)
	return &hostsCheck{session: newSession(spec, o)}
}

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
			n.abandon("the check was interrupted")
		}
	})
	defer stop()
	c.queryAll()
	c.probeNetwork(ctx)
	return nil
}

// hostsCheck is one call of CheckHosts or Examine.
type hostsCheck struct {
	*session
	report   HostsReport
	problems flaws          // including hosts that could not be queried
	inspect  bool           // gather all that package doctor judges
	hosts    []*doctor.Host // by index; nil: it did not answer
	network  doctor.Network
	// noAddress says why no address is reached by all hosts, or why that is unknown.
	noAddress []doctor.Problem
}

// flaws merges problems that several hosts have.
type flaws struct {
	list    []doctor.Problem
	general []doctor.Problem // without what differs between hosts
}

func (f *flaws) add(p, general doctor.Problem) {
	for i, q := range f.list {
		if g := f.general[i]; g.Text == general.Text && g.Hint == general.Hint && q.Note == p.Note {
			f.list[i].Hosts, f.list[i].Text = append(q.Hosts, p.Hosts...), general.Text
			return
		}
	}
	f.list, f.general = append(f.list, p), append(f.general, general)
}

// cluster is package doctor's input.
func (c *hostsCheck) cluster() *doctor.Cluster {
	cluster := &doctor.Cluster{
		Gorun: version.String(), Program: c.report.Program, Asked: len(c.spec.Hosts), Network: c.network,
		Hosts: slices.DeleteFunc(slices.Clone(c.hosts), func(h *doctor.Host) bool { return h == nil }),
	}
	if len(cluster.Hosts) == 0 {
		cluster.Hosts = nil
	}
	return cluster
}

// reach starts agents on all hosts. nodes are those that were reached.
func (c *hostsCheck) reach(ctx context.Context) error {
	c.report = HostsReport{Version: version.String(), Hosts: make([]HostReport, len(c.spec.Hosts))}
	c.hosts = make([]*doctor.Host, len(c.spec.Hosts))
	if len(c.spec.Apps) > 0 {
		c.report.Program = c.spec.Apps[0].Program
	}
	all, errs := make([]*node, len(c.spec.Hosts)), make([]error, len(c.spec.Hosts))
	end := c.showProgress(c.spec.Hosts)
	byEngine := c.spec.StartedByEngine()
	if byEngine {
		if err := c.gatherByEngine(ctx, c.spec.Hosts); err != nil {
			end()
			return err
		}
	} else if c.settings.reacher == nil {
		c.settings.reacher = c.newShellReacher()
	}
	for i, h := range c.spec.Hosts {
		h.Here = h.Here && !byEngine // as for a job
		all[i] = &node{index: i, host: h, name: h.Name, engine: c.engine}
	}
	c.heartbeat.start(&c.spec, all) // agents without heartbeats end while others are reached
	var busy sync.WaitGroup
	for i := range all {
		busy.Go(func() { errs[i] = c.connectTo(ctx, all[i]) })
	}
	busy.Wait()
	end()
	for i, n := range all {
		r := c.reportOf(n)
		p := c.progress.host(i)
		*r = HostReport{
			Name: n.name, Here: n.host.Here, Reached: errs[i] == nil, Seconds: p.took.Seconds(),
			Copied: p.Sent > 0,
		}
		if errs[i] != nil {
			r.Step = p.Step
			if e, ok := errors.AsType[*Error](errs[i]); ok && e.step != "" { // the failed step may be more specific
				r.Step = e.step
			}
			c.addError(n, errs[i])
			continue
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

func (c *hostsCheck) reportOf(n *node) *HostReport { return &c.report.Hosts[n.index] }

func (c *hostsCheck) addError(n *node, err error) {
	for _, e := range flatten(err) {
		general := e.withoutHost()
		c.problems.add(doctor.Problem{Hosts: []string{n.name}, Text: e.Text, Hint: e.Hint},
			doctor.Problem{Text: general.Text, Hint: general.Hint})
	}
}

func (c *hostsCheck) queryAll() {
	errs := make([]error, len(c.nodes))
	hello, check := c.queries()
	var busy sync.WaitGroup
	for i, n := range c.nodes {
		busy.Go(func() { errs[i] = c.query(n, hello, check) })
	}
	busy.Wait()
	for i, n := range c.nodes {
		if errs[i] != nil {
			c.addError(n, errs[i])
		}
	}
}

// queries returns what nodes are asked.
func (c *hostsCheck) queries() (wire.Hello, wire.Check) {
	check := wire.Check{Patience: fileTimeout}
	hello := c.hello()
	hello.CPUs, hello.GPUs, hello.GPUUsers, hello.Topology = true, true, true, true
	if c.inspect { // the inspection includes them
		hello.GPUs, hello.GPUUsers, hello.Topology = false, false, false
		c.inspection(&check)
	}
	hello.Ranks = 0
	if len(c.spec.Apps) > 0 {
		check.Program = true
		check.Dir = c.spec.Apps[0].Dir
	}
	if check.Dir == "" {
		check.Dir = c.spec.Dir
	}
	return hello, check
}

// query samples the clock between two requests, when the node is idle.
func (c *hostsCheck) query(n *node, hello wire.Hello, check wire.Check) error {
	h := c.helloFor(n, hello)
	h.DirOptional = filepath.IsAbs(check.Dir)
	var facts wire.Facts
	limit := c.settings.answerLimit
	if err := n.within(limit, "what it has", func() error { return n.request(h, &facts) }); err != nil {
		return err
	}
	if facts.Version != wire.Version {
		return versionError(n, facts.Version)
	}
	for range clockSamples {
		if err := n.send(&wire.Ping{Sent: time.Now()}); err != nil {
			return err
		}
	}
	var checked wire.Checked
	if n.host.Here && check.Inspect {
		check.Environ = append(slices.Clip(check.Environ), c.containerVariables()...)
	}
	err := n.within(limit, "what ranks would find there", func() error { return n.request(&check, &checked) })
	if err != nil {
		return err
	}
	c.record(n, check.Dir, facts, checked)
	return nil
}

// clockSamples is the number of readings; the fastest counts.
const clockSamples = 4

// record completes a node's report.
func (c *hostsCheck) record(n *node, dir string, facts wire.Facts, checked wire.Checked) {
	h := n.inspected(checked)
	c.hosts[n.index] = h
	h.SettingsFiles = facts.NCCL.Conf
	if !h.Here && !c.spec.StartedByEngine() { // an engine's command passes the environment on
		h.Environ = facts.Environ
	}
	if !c.inspect {
		h.Machine = facts.Machine
		for i := range h.Machine.GPUs {
			h.Machine.GPUs[i].Name = printable.Text(h.Machine.GPUs[i].Name)
		}
	}
	c.recordProgram(h, cmp.Or(dir, workingDir()), facts)
	r := c.reportOf(n)
	r.Hostname, r.Version, r.Executable = printable.Text(facts.Host), h.Gorun, h.Executable
	r.Architecture, r.Kernel, r.Clock, r.Rooms = h.Architecture, h.Kernel, h.Clock, h.DiskSpace
	r.CPUs, r.GPUs, r.InfiniBand = h.Machine.CPUs.Len(), h.Machine.GPUs, len(h.RDMA) > 0
	for _, name := range []string{"memlock", "nofile", "nproc"} {
		if limit, ok := h.Limits[name]; ok {
			r.Limits = append(r.Limits, LimitReport{name, limit})
		}
	}
	if r.Dir = cmp.Or(dir, workingDir()); h.Program != nil {
		r.Missing = h.Program.NoDir
	}
	if len(facts.Programs) > 0 {
		r.Program = h.Program
	}
	r.Notes = append(printables(facts.Notes), printables(facts.Machine.Notes)...)
}

// inspected returns what a node reported.
func (n *node) inspected(checked wire.Checked) *doctor.Host {
	h := &doctor.Host{}
	if err := json.Unmarshal(printableJSON(checked.Host), h); err != nil {
		h.Unknown = []string{"cannot parse its report: " + err.Error()}
	}
	h.Name, h.Here = n.name, n.host.Here
	if h.Here {
		h.Name = n.host.Name
	} else {
		h.Clock = n.clock.report()
	}
	return h
}

// recordProgram merges how a node resolved the program and what it read of it.
func (c *hostsCheck) recordProgram(h *doctor.Host, dir string, facts wire.Facts) {
	own := doctor.Program{}
	if h.Program != nil {
		own = *h.Program
	}
	p := doctor.Program{NoDir: cmp.Or(printable.Text(facts.DirError), own.NoDir), ELF: own.ELF}
	if p.NoDir != "" {
		p.Dir = dir
	}
	for _, r := range facts.Programs[:min(1, len(facts.Programs))] {
		p.Kind, p.Path = printable.Text(r.Kind), printable.Text(r.Path)
		if p.Error, p.Hint = printable.Text(r.Error), printable.Text(r.Hint); p.Error == "" {
			p.Path, p.Size, p.SHA256, p.Error = own.Path, own.Size, own.SHA256, own.Error
		}
	}
	if h.Program = &p; p == (doctor.Program{}) {
		h.Program = nil
	}
}

// within abandons a node that does not answer.
func (n *node) within(limit time.Duration, what string, do func() error) error {
	timer := time.AfterFunc(limit, func() { n.abandon(fmt.Sprintf("it did not report %s within %s", what, limit)) })
	defer timer.Stop()
	return do()
}

// probeNetwork finds out which nodes reach each other.
func (c *hostsCheck) probeNetwork(ctx context.Context) {
	var probers []prober
	for _, n := range c.nodes {
		select {
		case <-n.lost:
			continue
		default:
		}
		probers = append(probers, n.prober())
	}
	if len(probers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.answerLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		for _, n := range c.nodes {
			n.abandon("it did not report which hosts it reaches")
		}
	})
	defer stop()
	survey, choice, err := surveyNetwork(probers)
	c.recordNetwork(survey, choice, err)
}

func (c *hostsCheck) recordNetwork(survey probe.Survey, choice probe.Choice, err error) {
	r := networkReport(&survey)
	c.report.Network = r
	c.network.Problems, c.network.Summary = survey.Problems(), r.Summary
	if err == nil {
		r.Address, r.Reason = choice.Addr.String(), choice.Reason
		c.network.Address = r.Address
		return
	}
	problem := doctor.Problem{Hosts: survey.Names(), Text: printable.Error(err)}
	reported := false // by a flaw
	if unreached, ok := errors.AsType[*probe.UnreachedError](err); ok {
		problem.Hint = unreached.Hint()
		reported = slices.ContainsFunc(c.network.Problems, func(f doctor.Problem) bool { return f.Check == probe.CheckReach })
	} else {
		r.Error, problem.Text = err.Error(), "cannot tell which hosts reach each other: "+err.Error()
	}
	c.noAddress = append(c.noAddress, problem)
	if !reported {
		c.network.Error, c.network.Hint = err.Error(), problem.Hint
	}
}
