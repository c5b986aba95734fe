package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/doctor"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Limits of a check, so that no host can delay it for ever.
const (
	fileTimeout   = 20 * time.Second // for a file system, or all devices, to answer
	answerTimeout = 60 * time.Second // for a host to answer one request
	// Limits of Examine. A user expects its answer within five seconds, including the connection.
	examineTimeout = 3 * time.Second         // as fileTimeout
	examineLimit   = 4500 * time.Millisecond // as answerTimeout, so that a host can report what was slow
	examineLogin   = 4500 * time.Millisecond // for a host that hangs at login; copying programs may take longer
)

// CheckHosts looks at the hosts of a spec as a job would find them, at all in parallel, for the checks
// [doctor.Start], and starts no rank. It uses Hosts, Reach, Environ, Dir and the first of Apps, if
// any. An error is an *Error and means that no host was looked at.
func CheckHosts(ctx context.Context, spec Spec, o Options) (*doctor.Cluster, error) {
	if len(spec.Hosts) == 0 {
		return nil, &Error{Code: job.ExitUsage, Text: "no hosts given"}
	}
	o.answerLimit = cmp.Or(o.answerLimit, answerTimeout)
	c := &hostsCheck{session: newSession(spec, o), check: wire.Check{Quick: true, Limit: fileTimeout}}
	return c.run(ctx)
}

// Examine is CheckHosts for all checks of package doctor, of this host if the spec names none. It
// limits what hosts and logins may take, and writes nothing.
func Examine(ctx context.Context, spec Spec, o Options) (*doctor.Cluster, error) {
	if len(spec.Hosts) == 0 {
		spec.Hosts = append(spec.Hosts, thisHost)
	}
	o.answerLimit, o.loginLimit = min(cmp.Or(o.answerLimit, examineLimit), examineLimit), examineLogin
	c := &hostsCheck{session: newSession(spec, o), check: wire.Check{Limit: examineTimeout}}
	return c.run(ctx)
}

func (c *hostsCheck) run(ctx context.Context) (*doctor.Cluster, error) {
	if err := c.findExecutable(); err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.reach(ctx); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, n := range c.nodes {
			n.abandon("the check was interrupted")
		}
	})
	defer stop()
	c.queryAll()
	c.probeNetwork(ctx)
	for _, r := range c.cluster.Reached {
		if r.Host != nil {
			c.cluster.Hosts = append(c.cluster.Hosts, r.Host)
		}
	}
	for _, f := range c.failures {
		e := f.merged()
		c.cluster.Found = append(c.cluster.Found, doctor.Finding{
			Check: doctor.Reach, Severity: doctor.Error, Hosts: f.names, Text: e.Text, Advice: e.Hint,
		})
	}
	return &c.cluster, nil
}

// hostsCheck is one call of CheckHosts or Examine.
type hostsCheck struct {
	*session
	check    wire.Check // what hosts are asked
	cluster  doctor.Cluster
	failures []*nodeFailure // of hosts that could not be queried
}

// reach starts agents on all hosts. nodes are those that were reached.
func (c *hostsCheck) reach(ctx context.Context) error {
	c.cluster = doctor.Cluster{
		Gorun: version.String(), Asked: len(c.spec.Hosts), Reached: make([]doctor.Reached, len(c.spec.Hosts)),
	}
	if len(c.spec.Apps) > 0 {
		c.cluster.Program = c.spec.Apps[0].Program
	}
	all := make([]*node, len(c.spec.Hosts))
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
	errs := forEachOf(all, func(n *node) error { return c.connectTo(ctx, n) })
	end()
	for i, n := range all {
		p := c.progress.host(i)
		r := &c.cluster.Reached[i]
		*r = doctor.Reached{
			Name: n.name, Here: n.host.Here, OK: errs[i] == nil, Seconds: p.took.Seconds(), Copied: p.Sent > 0,
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

func (c *hostsCheck) addError(n *node, err error) {
	for _, e := range flatten(err) {
		c.failures = addFailure(c.failures, n, e)
	}
}

func (c *hostsCheck) queryAll() {
	hello := c.queries()
	for i, err := range forEachOf(c.nodes, func(n *node) error { return c.query(n, hello) }) {
		c.addError(c.nodes[i], err)
	}
}

// queries completes what nodes are asked. The inspection includes what a job asks of their machines.
func (c *hostsCheck) queries() wire.Hello {
	hello := c.hello()
	hello.CPUs, hello.GPUs, hello.GPUUsers, hello.Topology, hello.Ranks = false, false, false, false, 0
	if len(c.spec.Apps) > 0 {
		c.check.Program, c.check.Dir = true, c.spec.Apps[0].Dir
	}
	c.check.Dir, c.check.Patience = cmp.Or(c.check.Dir, c.spec.Dir), c.check.Limit
	c.check.Environ = c.variables("PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH")
	c.check.Python, _ = lookup(c.spec.Environ, env.VarPython)
	return hello
}

// query samples the clock between two requests, when the node is idle.
func (c *hostsCheck) query(n *node, hello wire.Hello) error {
	h, check := c.helloFor(n, hello), c.check
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
	if n.host.Here { // variables that identify it as a container
		check.Environ = append(slices.Clip(check.Environ),
			c.variables("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")...)
	}
	err := n.within(limit, "what ranks would find there", func() error { return n.request(&check, &checked) })
	if err != nil {
		return err
	}
	c.record(n, facts, checked)
	return nil
}

// clockSamples is the number of readings; the fastest counts.
const clockSamples = 4

// record completes what a node reported.
func (c *hostsCheck) record(n *node, facts wire.Facts, checked wire.Checked) {
	h := n.inspected(checked)
	c.cluster.Reached[n.index].Host = h
	h.SettingsFiles = facts.NCCL.Conf
	if !h.Here && !c.spec.StartedByEngine() { // an engine's command passes the environment on
		h.Environ = facts.Environ
	}
	h.Dir = cmp.Or(c.check.Dir, workingDir())
	recordProgram(h, facts)
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
func recordProgram(h *doctor.Host, facts wire.Facts) {
	own := doctor.Program{}
	if h.Program != nil {
		own = *h.Program
	}
	p := doctor.Program{NoDir: cmp.Or(printable.Text(facts.DirError), own.NoDir)}
	if p.NoDir != "" {
		p.Dir = h.Dir
	}
	for _, r := range facts.Programs[:min(1, len(facts.Programs))] {
		p.Kind, p.Path = printable.Text(r.Kind), printable.Text(r.Path)
		if p.Error, p.Hint = printable.Text(r.Error), printable.Text(r.Hint); p.Error == "" {
			p.Path, p.Size, p.SHA256, p.ELF, p.Error = own.Path, own.Size, own.SHA256, own.ELF, own.Error
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
		if !n.isLost() {
			probers = append(probers, n.prober())
		}
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
	r := survey.Report()
	c.cluster.Network, c.cluster.Found = r, survey.Findings()
	if err == nil {
		r.Address, r.Reason = choice.Addr.String(), choice.Reason
		return
	}
	f := doctor.Finding{
		Check: doctor.NoAddress, Severity: doctor.Error, Hosts: survey.Names(), Text: printable.Error(err),
		Fix: "ip -br addr; ip route",
	}
	if unreached, ok := errors.AsType[*probe.UnreachedError](err); ok {
		f.Advice = unreached.Hint()
	} else {
		f.Text = "cannot tell which hosts reach each other: " + f.Text
	}
	r.Error, c.cluster.Found = f.Text, append(c.cluster.Found, f)
}

// printableJSON makes all texts in JSON of another host printable.
func printableJSON(text []byte) []byte {
	var all any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if decoder.Decode(&all) != nil {
		return text
	}
	clean, err := json.Marshal(printableValue(all))
	if err != nil {
		return text
	}
	return clean
}

func printableValue(v any) any {
	switch v := v.(type) {
	case string:
		return printable.Text(v)
	case []any:
		for i := range v {
			v[i] = printableValue(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if clean := printable.Text(key); clean != key {
				delete(v, key)
				v[clean] = printableValue(value)
				continue
			}
			v[key] = printableValue(value)
		}
	}
	return v
}
