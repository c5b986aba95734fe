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

// DescriptorsPerRank returns the number of descriptors that the launcher holds per rank: two pipes, a pidfd and, with
// Common.Sockets, a socket.
func DescriptorsPerRank(sockets bool) int {
	if sockets {
		return 4
	}
	return 3
}

func (c *Common) perRank() int { return DescriptorsPerRank(c.Sockets) }

// inFlight is the number of further descriptors that a thread needs while it starts a rank: the rank's ends of its
// pipes and of its socket pair.
const inFlight = numStreams + 1

// ownDescriptors is the number of descriptors of a group itself: an epoll and an eventfd per thread, /dev/null, and
// duplicates of the standard streams.
const ownDescriptors = maxThreads*(2+inFlight) + 1 + numStreams

// usersOpenFiles returns the limit of open files for ranks: the one that this process was started with, which Go has
// raised to one less than the hard limit. It is nil if there is nothing to restore, or the program has changed the
// limit itself.
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

// LimitError reports a limit that is too low for a job.
type LimitError struct {
	Ranks int
	Limit string // name, with the command or file that sets it
	Have  int    // current value
	Used  int    // in use already
	Need  int    // minimum value
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d ranks need at least %d: %s is %d, and %d are in use", e.Ranks, e.Need, e.Limit, e.Have, e.Used)
}

// CheckLimits returns a *LimitError if this process's limits of open files or processes are too low for ranks more
// ranks with perRank descriptors each (see DescriptorsPerRank), beside those that are running. Call it before ranks
// are started: the Go runtime aborts when it cannot create a thread. If processes are scarce it also creates the
// launcher's threads now, see ReserveThreads.
func CheckLimits(ranks, running, perRank int) error {
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

// spareTasks is the number of threads and processes that the launcher may need itself while ranks start: spawners, the
// runtime's threads, a guard.
const spareTasks = maxThreads + 8

// checkFiles checks the soft limit, which Go has raised as far as possible.
func checkFiles(ranks, running, perRank int) error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil // the start will fail if it is too low
	}
	if uint64((ranks+running)*perRank+ownDescriptors+128) <= files.Cur {
		return nil // enough, without counting open descriptors
	}
	if l := filesFor(ranks, perRank); uint64(l.Need) > files.Cur {
		return l
	}
	return nil
}

func filesFor(ranks, perRank int) *LimitError {
	var files unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	open, err := openDescriptors()
	if err != nil {
		open = make([]int, numStreams)
	}
	need := len(open) + ranks*perRank + min(ranks+1, maxThreads)*(2+inFlight) + 1
	return &LimitError{
		Ranks: ranks, Limit: "the hard limit of open files (ulimit -Hn)", Have: int(files.Max),
		Used: len(open), Need: need,
	}
}

// LimitFor explains an error of starting ranks with perRank descriptors each (see DescriptorsPerRank): which limit was
// reached and what the job needs. It returns "" if err is not about a limit.
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

// processLimit returns which limit of processes was reached. The kernel returns EAGAIN for all of them.
func processLimit(ranks int) string {
	for _, l := range taskLimits(math.MaxInt) {
		if l.left() <= ranks+spareTasks {
			return l.tooLow(ranks).Error()
		}
	}
	return "a limit of processes is reached (ulimit -u, pids.max of the cgroup, or sysctl kernel.threads-max and " +
		"kernel.pid_max)"
}

// taskLimit is a limit of tasks, that is, processes and threads. name "": no limit.
type taskLimit struct {
	name       string
	most, used int
}

func (l taskLimit) left() int { return l.most - l.used }

func (l taskLimit) tooLow(ranks int) *LimitError {
	return &LimitError{Ranks: ranks, Limit: l.name, Have: l.most, Used: l.used, Need: l.used + ranks + spareTasks}
}

// taskLimits returns the limits of this process, tightest first. Limits that obviously leave enough may be missing.
func taskLimits(enough int) (limits []taskLimit) {
	for _, l := range []taskLimit{userTasks(enough), cgroupTasks("/proc/self/cgroup", "/sys/fs/cgroup")} {
		if l.name != "" {
			limits = append(limits, l)
		}
	}
	slices.SortFunc(limits, func(a, b taskLimit) int { return cmp.Compare(a.left(), b.left()) })
	return limits
}

// userTasks returns RLIMIT_NPROC, which does not apply to root. It does not count the user's tasks if even all tasks of
// the host would leave enough.
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

// hostTasks returns the number of tasks on this host: 80 in "0.20 0.18 0.12 1/80 11206".
func hostTasks() (int, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	_, counts, _ := strings.Cut(string(text), "/")
	all, _, _ := strings.Cut(counts, " ")
	return strconv.Atoi(all)
}

// cgroupTasks returns the tightest limit of the pids controller in this process's cgroup and its ancestors.
// membership is /proc/self/cgroup, and root the mount point of cgroups.
func cgroupTasks(membership, root string) (tightest taskLimit) {
	text, err := os.ReadFile(membership)
	if err != nil {
		return taskLimit{}
	}
	for _, m := range cgroup.Memberships(string(text)) {
		if m.Controllers != "" && m.Controllers != "pids" {
			continue
		}
		base := filepath.Join(root, m.Controllers) // version 1 has a directory per controller
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

func groupTasks(dir string) taskLimit {
	most, err := numberIn(filepath.Join(dir, "pids.max")) // "max" is an error: no limit
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
