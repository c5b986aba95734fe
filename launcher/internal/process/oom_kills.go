package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// OOMKills tells which processes the kernel killed for lack of memory: by its
// log where we may read that, else by the counter of our memory cgroup, which
// does not say who it was. The zero value has not begun to watch.
type OOMKills struct {
	mu      sync.Mutex
	begun   bool
	counter *oomCounter // nil: there is no memory cgroup
	before  oomCount
	log     *kernelLog // nil: we may not read it
	victims []oomVictim
}

// OOMKill is how one process was killed for lack of memory.
type OOMKill struct {
	Evidence string // the file that says so, with its counter: "memory.events oom_kill 0→1"
	Limit    uint64 // what was used up, in bytes: a cgroup's limit, or the host's memory; 0: unknown
	Host     bool   // it was the host's
}

// Begin begins to watch unless it has. It reads some files: call it off the critical path.
func (o *OOMKills) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin()
}

func (o *OOMKills) begin() {
	if o.begun {
		return
	}
	o.begun = true
	if o.counter, _ = newOOMCounter(os.DirFS("/")); o.counter != nil {
		o.before = o.counter.look()
	}
	o.log, _ = newKernelLog() // the counter is left
}

// Close gives back what watching takes.
func (o *OOMKills) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil {
		unix.Close(o.log.fd)
		o.log = nil
	}
}

// Killed looks at the end of a process that SIGKILL ended: false if it was not
// the kernel, as far as can be seen. It never waits.
func (o *OOMKills) Killed(pid int) (OOMKill, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin()
	var now oomCount
	if o.log != nil { // before the counter, which then has all that the log has
		o.victims = append(o.victims, o.log.victims()...)
	}
	if o.counter != nil {
		now = o.counter.look()
	}
	kill, ok := o.judge(pid, now)
	if ok && kill.Limit == 0 && kill.Host {
		kill.Limit = hostMemory()
	}
	return kill, ok
}

// judge has no side effects. The counter rises before the victim gets its signal;
// of the log's two records one may be left out (there is a rate limit), the other
// may come after the victim's end. So the log can say that it was this process,
// and that it was not only if it accounts for every kill that was counted.
func (o *OOMKills) judge(pid int, now oomCount) (k OOMKill, ok bool) {
	kills, valid := now.since(o.before)
	counted := valid && kills > 0
	i := slices.IndexFunc(o.victims, func(v oomVictim) bool { return v.PID == pid })
	switch {
	case i >= 0:
		k.Host = o.victims[i].Global
	case !counted || kills <= o.others():
		return k, false
	default:
		k.Host = now.limit == 0
	}
	k.Evidence = "kernel log"
	if counted {
		k.Evidence = fmt.Sprintf("%s oom_kill %d→%d", o.counter.events, o.before.kills, now.kills)
		if !k.Host {
			k.Limit = now.limit
		}
	}
	return k, true
}

// others is how many processes of our own cgroup the log names; none of them is
// the one in question.
func (o *OOMKills) others() uint64 {
	seen := map[int]bool{}
	for _, v := range o.victims {
		if v.Group == o.counter.group {
			seen[v.PID] = true
		}
	}
	return uint64(len(seen))
}

// hostMemory is the host's memory in bytes, 0 if it cannot be told.
func hostMemory() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("MemTotal:"))
	number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
	kib, _ := decimal(number)
	return kib << 10
}
