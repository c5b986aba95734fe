package job

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gorun/env/plan"
	"gorun/launcher/internal/spec"
)

func (b *builder) logsToHead() bool { return b.spec.Output.LogsToHead && b.several() }

// several reports whether the job is on more than one node.
func (b *builder) several() bool { return len(b.facts) > 1 }

// logs is torchrun's layout: LOGDIR/RUNID_RANDOM/attempt_N/LOCALRANK/. With several
// nodes each has such a directory of its own: LOGDIR/RUNID_RANDOM/NODE/attempt_N/….
// Without wishes for files there are none.
func (b *builder) logs() *Logs {
	o := &b.spec.Output
	if o.LogDir == "" && !o.namesFiles() && !o.Redirect.Any() && !o.Tee.Any() {
		return nil
	}
	l := &Logs{DuplicateStdout: o.DuplicateStdout, DuplicateStderr: o.DuplicateStderr}
	l.Base = b.logBase(b.head())
	l.Dir = l.Base
	switch {
	case o.namesFiles():
		l.Names = []string{o.StdoutFile, o.StderrFile}
		l.Dir = o.LogBase()
		l.Base = l.Dir
	case l.Base == spec.NullDevice:
	case b.several():
		b.nodeLogs()
	default:
		l.Dir = b.attemptDir(l.Base)
	}
	for localRank := range b.localRanks() {
		l.Redirect = append(l.Redirect, o.Redirect.Of(localRank))
		l.Tee = append(l.Tee, o.Tee.Of(localRank))
	}
	return l
}

// LogBase is the directory below which log files are; "" leaves it to gorun.
func (o *OutputSpec) LogBase() string {
	if !o.namesFiles() {
		return o.LogDir
	}
	known, _, _ := strings.Cut(cmp.Or(o.StdoutFile, o.StderrFile), "%")
	return path.Dir(known + "x")
}

// namesFiles reports whether log files have names of the user's own.
func (o *OutputSpec) namesFiles() bool { return o.StdoutFile != "" || o.StderrFile != "" }

// head is the node on the launcher's own host; the first if none is.
func (b *builder) head() int {
	return max(0, slices.IndexFunc(b.facts, func(f Facts) bool { return !f.Remote }))
}

// logBase is the job's directory as a node names it.
func (b *builder) logBase(node int) string {
	dir := b.spec.Output.LogDir
	if b.facts[node].Joined {
		dir = b.facts[node].LogDir
	}
	switch dir {
	case spec.NullDevice:
		return spec.NullDevice
	case "":
		dir = path.Join(b.facts[node].TempDir, "torchelastic_"+b.ids.short())
	}
	return path.Join(dir, strings.ReplaceAll(b.plan.RunID, "/", "_")+"_"+b.ids.short())
}

func (b *builder) attemptDir(base string) string {
	return path.Join(base, fmt.Sprintf("attempt_%d", b.ids.Attempt))
}

// nodeLogs gives each node a directory that is called after it.
func (b *builder) nodeLogs() {
	taken := make(map[string]bool, len(b.facts))
	for node := range b.facts {
		name := strings.ReplaceAll(b.plan.Nodes[node].Name, "/", "_")
		if name == "" || name == "." || name == ".." || taken[name] {
			name = fmt.Sprintf("%s_%d", name, node)
		}
		taken[name] = true
		from := node
		if b.logsToHead() {
			from = b.head()
		}
		base := b.logBase(from)
		if base == spec.NullDevice {
			b.plan.Nodes[node].Logs = &NodeLogs{Base: base, Dir: base}
			continue
		}
		base = path.Join(base, name)
		b.plan.Nodes[node].Logs = &NodeLogs{Base: base, Dir: b.attemptDir(base)}
	}
}

// ErrorFiles reports whether each rank gets a file for PyTorch's record of an exception: beside its logs or, where it
// has no directory of them, in one that its node makes and removes.
func (p *Plan) ErrorFiles() bool {
	return p.Store.Mode == plan.StoreGorun && (p.Logs == nil || p.Logs.Named() || p.Logs.Files())
}

// errorFile is its name.
func (b *builder) errorFile() string {
	if b.plan.ErrorFiles() {
		return AtStart
	}
	return ""
}

// keyFile is the file with the job's key; "" with one node.
func (b *builder) keyFile() string {
	if len(b.plan.Nodes) > 1 {
		return AtStart
	}
	return ""
}
