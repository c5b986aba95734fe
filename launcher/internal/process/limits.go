package process

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/cgroup"
	"gorun/launcher/internal/process/inherited"
)

// PerRank is the number of descriptors that the launcher holds for a rank with
// pipes for stdout and stderr: these and the pidfd.
const PerRank = 3

// PerSocket is what Common.Sockets adds to it.
const PerSocket = 1

// perRank is the number of descriptors that the launcher holds for a rank.
func (c *Common) perRank() int {
	if c.Sockets {
		return PerRank + PerSocket
	}
	return PerRank
}

// inFlight is the number of descriptors that a thread needs for as long as it
// starts a rank: the rank's ends of its pipes and of its socket pair.
const inFlight = numStreams + PerSocket

// ownDescriptors is what a group needs for itself: an epoll and an eventfd a
// thread, /dev/null, and copies of the standard streams.
const ownDescriptors = maxThreads*(2+inFlight) + 1 + numStreams

// usersOpenFiles returns the limit of open files that ranks are to have: the one
// that this process was started with, which Go has raised to one less than the
// hard limit. It is nil where there is nothing to restore, as when somebody has
// set the limit since then and meant it.
func usersOpenFiles() *unix.Rlimit {
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return nil
	}
	was := inherited.NoFile
	if was.Hard == 0 || now.Max != was.Hard || now.Cur != was.Hard-1 || now.Cur == was.Soft {
		return nil
	}
	return &unix.Rlimit{Cur: was.Soft, Max: was.Hard}
}

// LimitError says which limit is too low for a job.
type LimitError struct {
	Ranks int
	Limit string // what is limited and how it can be raised
	Have  int    // its value
	Used  int    // what of it is in use already
	Need  int    // what it has to be, at least
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d ranks need at least %d: %s is %d with %d in use", e.Ranks, e.Need, e.Limit, e.Have, e.Used)
}

// CheckLimits returns a *LimitError if this process may not have the open files
// or processes that so many ranks need; of descriptors these are perRank each (see
// PerRank). It is the only good moment to ask about processes: the Go runtime does
// not survive it when it wants a thread and there can be none. Where they are
// scarce the launcher's threads are made now, see ReserveThreads.
func CheckLimits(ranks, perRank int) error { return CheckMoreLimits(ranks, 0, perRank) }

// CheckMoreLimits is CheckLimits for ranks that are to run beside others, as many as running.
func CheckMoreLimits(ranks, running, perRank int) error {
	if err := checkFiles(ranks, running, perRank); err != nil {
		return err
	}
	limits := taskLimits(max(ranks+spareTasks, scarceTasks)) // the tightest is first
	switch {
	case len(limits) == 0 || limits[0].left() >= scarceTasks:
		return nil
	case limits[0].left() < ranks+spareTasks:
		return limits[0].tooLow(ranks)
	}
	reserveThreads(limits[0].left() - ranks)
	return nil
}

// spareTasks is how many threads and processes the launcher may need for itself
// while ranks start: spawners, the runtime's, a guard.
const spareTasks = maxThreads + 8

// checkFiles checks the limit that Go has raised for this process as far as it may.
func checkFiles(ranks, running, perRank int) error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil // then the start will show
	}
	if uint64((ranks+running)*perRank+ownDescriptors+128) <= files.Cur {
		return nil // without counting what is open
	}
	if l := filesFor(ranks, perRank); uint64(l.Need) > files.Cur {
		return l
	}
	return nil
}

// filesFor is what there is to say about the limit of open files.
func filesFor(ranks, perRank int) *LimitError {
	var files unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	open, err := openDescriptors()
	if err != nil {
		open = make([]int, numStreams)
	}
	need := len(open) + ranks*perRank + min(ranks, maxThreads)*(2+inFlight) + 1
	return &LimitError{
		Ranks: ranks, Limit: "the hard limit of open files (ulimit -Hn)", Have: int(files.Max),
		Used: len(open), Need: need,
	}
}

// LimitFor names the limit behind an error of starting ranks, of which each needs
// perRank descriptors (see PerRank), and what the job needs of it; "" if err is not of
// that kind.
func LimitFor(err error, ranks, perRank int) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return filesFor(ranks, perRank).Error()
	case errors.Is(err, syscall.ENFILE):
		return "this host's limit of open files (sysctl fs.file-max) is reached"
	case errors.Is(err, syscall.EAGAIN):
		return processLimit(ranks)
	case errors.Is(err, syscall.ENOMEM):
		return "the memory of this host or of its cgroup is used up"
	}
	return ""
}

// processLimit tells which limit of processes a fork has met; the kernel says
// EAGAIN for all of them.
func processLimit(ranks int) string {
	for _, l := range taskLimits(math.MaxInt) {
		if l.left() <= ranks+spareTasks {
			return l.tooLow(ranks).Error()
		}
	}
	return "a limit of processes is reached (ulimit -u, pids.max of the cgroup, or sysctl kernel.threads-max and " +
		"kernel.pid_max)"
}

// taskLimit is a limit of processes and threads, which count alike. Without a
// name there is none.
type taskLimit struct {
	name       string
	most, used int
}

func (l taskLimit) left() int { return l.most - l.used }

func (l taskLimit) tooLow(ranks int) *LimitError {
	return &LimitError{Ranks: ranks, Limit: l.name, Have: l.most, Used: l.used, Need: l.used + ranks + spareTasks}
}

// taskLimits returns the limits that hold for this process, the tightest first.
// Those that obviously leave enough may be missing.
func taskLimits(enough int) (limits []taskLimit) {
	for _, l := range []taskLimit{userTasks(enough), cgroupTasks("/proc/self/cgroup", "/sys/fs/cgroup")} {
		if l.name != "" {
			limits = append(limits, l)
		}
	}
	slices.SortFunc(limits, func(a, b taskLimit) int { return cmp.Compare(a.left(), b.left()) })
	return limits
}

// userTasks is RLIMIT_NPROC, which does not hold for root. The user's processes
// are not counted if all of this host's would leave enough.
func userTasks(enough int) taskLimit {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit)
	if err != nil || limit.Cur > math.MaxInt32 || os.Getuid() == 0 {
		return taskLimit{}
	}
	if all, err := hostTasks(); err == nil && int(limit.Cur)-all >= enough {
		return taskLimit{}
	}
	l := taskLimit{name: "the user's limit of processes (ulimit -u)", most: int(limit.Cur)}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		var owner unix.Stat_t
		if unix.Stat(dir, &owner) != nil || int(owner.Uid) != os.Getuid() {
			continue
		}
		if tasks, err := os.ReadDir(dir + "/task"); err == nil {
			l.used += len(tasks)
		}
	}
	return l
}

// hostTasks counts what this host runs: "0.20 0.18 0.12 1/80 11206" has 80.
func hostTasks() (int, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	_, counts, _ := strings.Cut(string(text), "/")
	all, _, _ := strings.Cut(counts, " ")
	return strconv.Atoi(all)
}

// cgroupTasks is the tightest limit of the pids controller over this process:
// that of its own cgroup or of one above it. membership is /proc/self/cgroup and
// root where cgroups are mounted.
func cgroupTasks(membership, root string) (tightest taskLimit) {
	text, err := os.ReadFile(membership)
	if err != nil {
		return taskLimit{}
	}
	for _, m := range cgroup.Memberships(string(text)) {
		if m.Controllers != "" && m.Controllers != "pids" {
			continue
		}
		base := filepath.Join(root, m.Controllers) // version 1 has a folder a controller
		for below := filepath.Join("/", m.Path); ; below = filepath.Dir(below) {
			l := groupTasks(filepath.Join(base, below))
			if l.name != "" && (tightest.name == "" || l.left() < tightest.left()) {
				tightest = l
			}
			if below == "/" {
				break
			}
		}
	}
	return tightest
}

// groupTasks is the limit of one cgroup.
func groupTasks(dir string) taskLimit {
	most, err := numberIn(filepath.Join(dir, "pids.max")) // no number: "max"
	if err != nil {
		return taskLimit{}
	}
	used, err := numberIn(filepath.Join(dir, "pids.current"))
	if err != nil {
		return taskLimit{}
	}
	return taskLimit{name: filepath.Join(dir, "pids.max"), most: most, used: used}
}

func numberIn(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
