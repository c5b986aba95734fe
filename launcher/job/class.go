package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"gorun/launcher/doctor/signature"
	"gorun/launcher/internal/spec"
)

// Classes of ends: whose fault they are. Signatures have the same.
const (
	classUser      = "user"
	classNode      = "node"
	classNetwork   = "network"
	classLauncher  = "launcher"
	classScheduler = "scheduler"
)

// usualClasses are the classes of causes of which nothing more is known.
var usualClasses = [...]string{
	CauseRank: classUser, CauseStart: classLauncher, CauseSignal: classUser, CauseTimeout: classUser,
	CauseReaderGone: classUser, CauseCancelled: classUser, CauseNode: classNode, CauseEarly: classUser,
	CauseHang: classUser, CauseEngine: classScheduler, CauseStuck: classUser, CausePreempted: classScheduler,
	CauseJoined: "",
}

// Classify sets Class and Why, which follow from all other fields.
func (r *Result) Classify() { r.Class, r.Why = r.classify() }

func (r *Result) classify() (class, why string) {
	class = usualClasses[r.Cause]
	text, _, _ := strings.Cut(r.Text, "\n")
	why = cmp.Or(text, r.SignalName, r.Cause.String())
	switch r.Cause {
	case CauseDone:
		if r.OutputLost == "" {
			return "", ""
		}
		return classNode, "output was lost: " + r.OutputLost
	case CauseRank:
		return r.First.classify()
	case CauseNode:
		class = classOfWords(text, class)
		if strings.Contains(text, "silent for") && len(r.unknownHosts()) > 1 { // they hardly fail at the same time
			return classNetwork, "several nodes are silent: " + HostRanges(r.unknownHosts())
		}
	case CauseHang:
		if r.Hang != nil {
			class, why = r.Hang.classify()
		}
	case CauseStart:
		return r.startClass(text), why
	case CauseSignal:
		if strings.HasPrefix(text, "as Slurm") {
			class = classScheduler
		}
	}
	if m, known := signature.Best(text); known && m.Kind == signature.Cause {
		class = m.Class
	}
	if r.Cause == CauseHang || r.Cause == CauseTimeout {
		for _, w := range r.ncclWarnings() {
			if m, known := signature.Best("NCCL WARN " + w.Text); known && m.Kind == signature.Cause {
				return m.Class, rankNames(w.Ranks) + ": " + m.Means
			}
		}
	}
	return class, why
}

// classesOfWords are the classes of errors before a job's start and of losses: the step of reaching a host, a limit.
var classesOfWords = []struct{ words, class string }{
	{" is not in PATH", classUser},
	{": configuration: ", classUser},
	{": authentication: ", classUser},
	{": host key: ", classUser},
	{"cannot resolve ", classUser},
	{" directory ", classUser},
	{"serve metrics ", classUser},
	{": connect: ", classNetwork},
	{": key exchange: ", classNode},
	{": copy: ", classNode},
	{"lost the agent", classNode},
	{" ranks need at least ", classNode},
	{"limit of ", classNode},
	{" ended before all agents connected", classScheduler},
	{"which started the agents, has ended", classScheduler},
	{"/srun: ", classScheduler},                     // it cannot be executed
	{"no message from the launcher", classLauncher}, // its process or host was suspended
	{"is used up", classNode},
	{"check ", classNode}, // of --check
	{" is lost: ", classNode},
}

// startClass is the class of a job that did not start.
func (r *Result) startClass(text string) string {
	if r.ExitCode == ExitUsage || r.ExitCode == ExitNotExec || r.ExitCode == ExitNotFound {
		return classUser
	}
	if m, known := signature.Best(text); known && m.Kind == signature.Cause {
		return m.Class
	}
	return classOfWords(text, classLauncher)
}

func classOfWords(text, otherwise string) string {
	for _, c := range classesOfWords {
		if strings.Contains(text, c.words) {
			return c.class
		}
	}
	return otherwise
}

// classify blames the program unless something else is known.
func (f *Failure) classify() (class, why string) {
	m, known := signature.ByID(f.Known)
	switch {
	case f.OOM != "" && f.Timer == "":
		where := ""
		if f.Host != "" {
			where = " on " + f.Host
		}
		return classNode, "out of memory" + where + ": " + f.OOM
	case f.FromEngine != "":
		return classScheduler, f.name() + ": " + f.How
	case len(f.EndedFirst) > 0:
		return classUser, rankNames(f.EndedFirst) + " ended before the others"
	case known && m.Class != classUser && !(f.ended() && strings.HasPrefix(m.ID, "exit-")):
		return m.Class, m.Text(m.Means)
	case f.Signal == syscall.SIGKILL && !f.ended():
		return classNode, f.name() + ": " + f.How
	case len(f.Traceback) > 0:
		return classUser, f.name() + ": " + strings.TrimSpace(f.Traceback[len(f.Traceback)-1])
	}
	return classUser, f.name() + ": " + f.How
}

// ended reports whether gorun ended the rank, so that its exit code says nothing.
func (f *Failure) ended() bool { return f.Timer != "" || f.Raised || f.Forwarded }

// classify blames the program unless a process was stopped from outside.
func (h *Hang) classify() (class, why string) {
	if i := slices.IndexFunc(h.Ranks, func(a spec.Activity) bool { return a.State == "stopped" }); i >= 0 {
		return classNode, fmt.Sprintf("rank %d is stopped", h.Ranks[i].Rank)
	}
	return classUser, cmp.Or(verdict(groupRanks(h.Ranks)), "no progress for "+round(h.Quiet))
}

// why says whose fault the end was unless the headline makes that plain, or only an exit code or a symptom says so.
func (b *reportBuilder) why(r *Result) {
	class, why := r.classify()
	plain := class == usualClasses[r.Cause] || class == classUser || strings.HasPrefix(r.Text, why)
	if !plain && (r.Cause != CauseRank || r.First.evident()) {
		b.row("why", class+": "+why)
	}
}

func (f *Failure) evident() bool {
	m, known := signature.ByID(f.Known)
	return f.OOM != "" || known && m.Kind == signature.Cause
}
