package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/doctor"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
)

const (
	// examineLimit is for a host to answer one question: it is more than it takes itself, so
	// that it says what was too slow.
	examineLimit = 4500 * time.Millisecond
	// examineLogin is for a host to let us in: one that hangs takes no longer. What has to be
	// sent there may take its time.
	examineLogin = 4500 * time.Millisecond
	// examinePatience is for a file system to answer.
	examinePatience = 3 * time.Second
)

// Examine looks at the hosts of a wish, at all of them at once, for what package doctor
// judges; it starts no rank and writes nothing. Without hosts it looks at this one. Of the
// wish the same counts as for [CheckHosts]. An error is an *Error, and means that nothing
// was looked at.
func Examine(ctx context.Context, spec Spec, options ...Option) (*doctor.Cluster, error) {
	if len(spec.Hosts) == 0 {
		spec.Hosts = append(spec.Hosts, thisHost)
	}
	c := newHostsCheck(spec, options)
	c.settings.askLimit = min(c.settings.askLimit, examineLimit)
	c.settings.loginLimit = examineLogin
	c.patients = make([]*doctor.Host, len(spec.Hosts))
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	cluster := &doctor.Cluster{
		Gorun: version.String(), Wished: c.report.Program, Asked: len(spec.Hosts),
		Network: c.measured(),
	}
	for _, h := range c.patients {
		if h != nil {
			cluster.Hosts = append(cluster.Hosts, h)
		}
	}
	for _, p := range c.failed {
		cluster.Unreached = append(cluster.Unreached, doctor.Unreached{Hosts: p.Hosts, Text: p.Text, Hint: p.Hint})
	}
	return cluster, nil
}

// inspection has nodes inspect themselves. Libraries are looked for where ranks would find
// them.
func (c *hostsCheck) inspection(check *wire.Check) {
	check.Inspect, check.Patience = true, examinePatience
	for _, name := range []string{"PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"} {
		if value, ok := find(c.spec.Environ, name); ok {
			check.Environ = append(check.Environ, name+"="+value)
		}
	}
	check.Python, _ = find(c.spec.Environ, env.VarPython)
}

// signsOfContainers are variables by which this host is known to be a container.
func (c *hostsCheck) signsOfContainers() (list []string) {
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"} {
		if value, ok := find(c.spec.Environ, name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// takePatient completes what a node found of itself by what is known here.
func (c *hostsCheck) takePatient(n *node, facts wire.Facts, checked wire.Checked) {
	h := &doctor.Host{}
	if err := json.Unmarshal(cleaned(checked.Host), h); err != nil {
		h.Unknown = []string{"what it said of itself is not understood: " + err.Error()}
	}
	r := c.of(n)
	h.Name, h.Here, h.Gorun, h.Executable = n.name, n.host.Here, r.Version, r.Executable
	if n.host.Here {
		h.Name = n.host.Name
	}
	for _, file := range facts.NCCL.Conf {
		h.SettingsFiles = append(h.SettingsFiles, doctor.SettingsFile{Path: file.Path, Text: file.Text})
	}
	if !n.host.Here && !c.spec.ByEngine() { // an engine's command hands on what ranks inherit
		h.Environ = facts.Environ
	}
	if r.Clock != nil {
		clock := doctor.Clock(*r.Clock)
		h.Clock = &clock
	}
	for _, room := range r.Rooms {
		h.Rooms = append(h.Rooms, doctor.Room{Purpose: room.Purpose, Path: room.Path, Free: room.Free, Error: room.Error})
	}
	elf := ""
	if h.Program != nil {
		elf = h.Program.ELF
	}
	h.Program = nil
	if p := r.Program; p != nil {
		h.Program = &doctor.Program{
			Path: p.Path, Kind: p.Kind, Size: p.Size, SHA256: p.SHA256, Error: p.Error,
			Hint: p.Hint, ELF: elf,
		}
	}
	if r.Missing != "" {
		if h.Program == nil {
			h.Program = &doctor.Program{}
		}
		h.Program.Dir, h.Program.NoDir = c.spec.Dir, r.Missing
		if h.Program.Dir == "" {
			h.Program.Dir = c.workingDir()
		}
	}
	c.patients[n.place] = h
}

// cleaned is JSON of another host, in whose texts nothing is left that does something to a
// terminal.
func cleaned(text []byte) []byte {
	var all any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if decoder.Decode(&all) != nil {
		return text
	}
	clean, err := json.Marshal(printableIn(all))
	if err != nil {
		return text
	}
	return clean
}

func printableIn(v any) any {
	switch v := v.(type) {
	case string:
		return printable.Text(v)
	case []any:
		for i := range v {
			v[i] = printableIn(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if clean := printable.Text(key); clean != key {
				delete(v, key)
				v[clean] = printableIn(value)
				continue
			}
			v[key] = printableIn(value)
		}
	}
	return v
}

// measured is what is known of the network.
func (c *hostsCheck) measured() (n doctor.Network) {
	r := c.report.Network
	if r == nil {
		return n
	}
	n.Summary, n.Address, n.Error = r.Summary, r.Address, r.Error
	for _, p := range c.flaws {
		n.Flaws = append(n.Flaws, doctor.Flaw{
			Check: p.Check, Hosts: p.Hosts, Text: p.Text, Advice: p.Advice, Hint: p.Hint,
			Remark: p.Remark,
		})
	}
	var unreached *probe.UnreachedError // the flaws tell of it where ways were tried
	if errors.As(c.networks, &unreached) && !slices.ContainsFunc(n.Flaws, func(f doctor.Flaw) bool {
		return f.Check == probe.CheckReach
	}) {
		n.Error, n.Hint = unreached.Error(), unreached.Hint()
	}
	return n
}
