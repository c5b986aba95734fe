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

func (b *builder) severalNodes() bool { return len(b.facts) > 1 }

// logs has torchrun's layout, LOGDIR/RUNID_RANDOM/attempt_N/LOCALRANK/, and on several nodes one for each,
// LOGDIR/RUNID_RANDOM/NODE/attempt_N/…. It returns nil unless files are requested.
func (b *builder) logs() *Logs {
	o := &b.spec.Output
	if o.LogDir == "" && !o.namesFiles() && !o.Redirect.Any() && !o.Tee.Any() {
		return nil
	}
	l := &Logs{Base: b.logBase(b.head()), DuplicateStdout: o.DuplicateStdout, DuplicateStderr: o.DuplicateStderr}
	l.Dir = l.Base
	switch {
	case o.namesFiles():
		l.Names = []string{o.StdoutFile, o.StderrFile}
		l.Base = o.LogBase()
		l.Dir = l.Base
		if o.LogsByRank {
			b.joinedLogs()
		}
	case l.Base == spec.NullDevice:
	case b.severalNodes():
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

// LogBase returns the directory of all log files; "" if gorun chooses it.
func (o *OutputSpec) LogBase() string {
	if !o.namesFiles() {
		return o.LogDir
	}
	literal, _, _ := strings.Cut(cmp.Or(o.StdoutFile, o.StderrFile), "%")
	return path.Dir(literal + "x")
}

// LogNames returns the patterns for the names of the files of [OutputSpec.LogsByRank] in a directory.
func LogNames(dir string) []string {
	dir = strings.ReplaceAll(dir, "%", "%%")
	return []string{path.Join(dir, "%r.out"), path.Join(dir, "%r.err")}
}

// LabelsTees reports whether lines of tee'd streams have torchrun's label, or that of the template.
func (o *OutputSpec) LabelsTees() bool {
	return o.Template != "" && o.LogsByRank || !o.LogsByRank && !o.namesFiles()
}

func (o *OutputSpec) namesFiles() bool { return o.StdoutFile != "" || o.StderrFile != "" }

// head returns the node on the launcher's own host; the first one if none exists.
func (b *builder) head() int {
	return max(0, slices.IndexFunc(b.facts, func(f Facts) bool { return !f.Remote }))
}

// logBase returns the job's directory for a node.
func (b *builder) logBase(node int) string {
	f, dir := &b.facts[node], b.spec.Output.LogDir
	if f.Joined {
		dir = f.LogDir
	}
	switch dir {
	case spec.NullDevice:
		return dir
	case "":
		dir = path.Join(f.TempDir, "torchelastic_"+b.ids.short())
	}
	return path.Join(dir, strings.ReplaceAll(b.plan.RunID, "/", "_")+"_"+b.ids.short())
}

func (b *builder) attemptDir(base string) string {
	return path.Join(base, fmt.Sprintf("attempt_%d", b.ids.Attempt))
}

// joinedLogs gives nodes that joined the directories of their own command lines.
func (b *builder) joinedLogs() {
	for node, f := range b.facts {
		if f.Joined && f.LogDir != "" && f.LogDir != spec.NullDevice {
			b.plan.Nodes[node].Logs = &NodeLogs{Base: f.LogDir, Dir: f.LogDir, Names: LogNames(f.LogDir)}
		}
	}
}

// nodeLogs gives each node a directory named after it.
func (b *builder) nodeLogs() {
	taken := make(map[string]bool, len(b.facts))
	for node := range b.facts {
		name := strings.ReplaceAll(b.plan.Nodes[node].Name, "/", "_")
		if name == "" || name == "." || name == ".." || taken[name] {
			name = fmt.Sprintf("%s_%d", name, node)
		}
		taken[name] = true
		from := node
		if b.spec.Output.LogsToHead {
			from = b.head()
		}
		l := &NodeLogs{Base: b.logBase(from), Dir: spec.NullDevice}
		if l.Base != spec.NullDevice {
			l.Base = path.Join(l.Base, name)
			l.Dir = b.attemptDir(l.Base)
		}
		b.plan.Nodes[node].Logs = l
	}
}

// ErrorFiles reports whether each rank gets a file for PyTorch's record of an exception: beside its logs or, without a
// directory for these, in one that its node makes and removes.
func (p *Plan) ErrorFiles() bool {
	return p.Store.Mode == plan.StoreGorun && (p.Logs == nil || p.Logs.Named() || p.Logs.Files())
}
