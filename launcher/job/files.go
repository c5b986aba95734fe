package job

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// nullDevice as a log directory means no files at all.
const nullDevice = "/dev/null"

// files decides which files a job writes. PyTorch's error files go beside the
// logs, or to a private directory that is removed at the end.
func (b *builder) files() {
	o := b.spec.Output
	if o.LogDir != "" || o.namesFiles() || o.Redirect.Any() || o.Tee.Any() {
		b.plan.Logs = b.logs(o)
	}
	if b.keepsErrorsApart() || b.several() {
		b.privateDirs()
	}
}

// keepsErrorsApart reports whether error files are not beside the logs: there are no
// logs, or not on the ranks' own hosts.
func (b *builder) keepsErrorsApart() bool {
	return b.plan.Store.Mode == modeGorun && (b.plan.Logs == nil || b.plan.Logs.Named() || b.plan.Logs.Files() && b.logsToHead())
}

func (b *builder) logsToHead() bool { return b.spec.Output.LogsToHead && b.several() }

// several reports whether the job is on more than one node.
func (b *builder) several() bool { return len(b.facts) > 1 }

// privateDirs gives nodes directories of their own, also where they share a file
// system.
func (b *builder) privateDirs() {
	if !b.several() {
		b.plan.PrivateDir = path.Join(b.facts[0].TempDir, "gorun-"+b.ids.Dir)
		return
	}
	for node := range b.facts {
		b.plan.Nodes[node].PrivateDir = path.Join(b.facts[node].TempDir, fmt.Sprintf("gorun-%s-%d", b.ids.Dir, node))
	}
}

// logs is torchrun's layout: LOGDIR/RUNID_RANDOM/attempt_N/LOCALRANK/. With several
// nodes each has such a directory of its own: LOGDIR/RUNID_RANDOM/NODE/attempt_N/….
func (b *builder) logs(o OutputWish) *Logs {
	l := &Logs{DuplicateStdout: o.DuplicateStdout, DuplicateStderr: o.DuplicateStderr}
	l.Base = b.logBase(b.head())
	l.Dir = l.Base
	switch {
	case o.namesFiles():
		l.Names = []string{o.StdoutFile, o.StderrFile}
		l.Dir = o.LogBase()
		l.Base = l.Dir
	case l.Base == nullDevice:
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
func (o *OutputWish) LogBase() string {
	if !o.namesFiles() {
		return o.LogDir
	}
	known, _, _ := strings.Cut(cmp.Or(o.StdoutFile, o.StderrFile), "%")
	return path.Dir(known + "x")
}

// namesFiles reports whether log files have names of the user's own.
func (o *OutputWish) namesFiles() bool { return o.StdoutFile != "" || o.StderrFile != "" }

// head is the node on the launcher's own host; the first if none is.
func (b *builder) head() int {
	return max(0, slices.IndexFunc(b.facts, func(f Facts) bool { return !f.Away }))
}

// logBase is the job's directory as a node names it.
func (b *builder) logBase(node int) string {
	dir := b.spec.Output.LogDir
	switch dir {
	case nullDevice:
		return nullDevice
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
		base := path.Join(b.logBase(from), name)
		b.plan.Nodes[node].Logs = &NodeLogs{Base: base, Dir: b.attemptDir(base)}
	}
}

// errorFile is where a rank leaves PyTorch's record of an exception.
func (b *builder) errorFile(at placement.Rank) string {
	switch {
	case b.plan.Store.Mode != modeGorun:
		return ""
	case b.keepsErrorsApart():
		return b.plan.PrivateDirOf(at.Node) + "/error." + strconv.Itoa(at.LocalRank) + ".json"
	case !b.plan.Logs.Files():
		return ""
	}
	return path.Join(b.plan.LogsOf(at.Node).Dir, strconv.Itoa(at.LocalRank), "error.json")
}
