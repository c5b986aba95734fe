package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// OOMKills detects processes killed by the kernel's out-of-memory killer: from the kernel log if it is readable, else
// from the counter of our memory cgroup, which does not name the victim. The zero value is ready for Begin.
type OOMKills struct {
	mu      sync.Mutex
	begun   bool
	counter *oomCounter // nil: no memory cgroup
	before  oomCount
	log     *kernelLog // nil: not readable
	victims []oomVictim
	counted map[int]bool // processes of which the counter alone says that they were killed
}

// OOMKill describes how a process was killed for lack of memory.
type OOMKill struct {
	Evidence string // "kernel log", or file and counter: "memory.events oom_kill 0→1"
	Limit    uint64 // exhausted memory in bytes: a cgroup's limit, or the host's memory; 0: unknown
	Host     bool   // the host's memory was exhausted
}

// Begin starts watching; later calls have no effect. It reads some files, so call it off the critical path.
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
		o.before = o.counter.read()
	}
	o.log, _ = newKernelLog() // optional
}

// Close closes the kernel log.
func (o *OOMKills) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil {
		unix.Close(o.log.fd)
		o.log = nil
	}
}

// Killed reports whether the kernel killed a process that SIGKILL has ended, as far as can be seen. It does not block.
func (o *OOMKills) Killed(pid int) (OOMKill, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin()
	var now oomCount
	if o.log != nil { // before the counter, which must not be older
		o.victims = append(o.victims, o.log.victims()...)
	}
	if o.counter != nil {
		now = o.counter.read()
	}
	kill, ok := o.judge(pid, now)
	if ok && !slices.ContainsFunc(o.victims, func(v oomVictim) bool { return v.PID == pid }) {
		if o.counted == nil {
			o.counted = map[int]bool{}
		}
		o.counted[pid] = true
	}
	if ok && kill.Limit == 0 && kill.Host {
		kill.Limit = hostMemory()
	}
	return kill, ok
}

// judge has no side effects. The counter rises before the victim gets its signal. Of the log's two records one may be
// missing because of rate limiting, and the other may come after the victim's end. So the log can prove that a process
// was killed, but disproves it only if it accounts for every kill that was counted.
func (o *OOMKills) judge(pid int, now oomCount) (k OOMKill, ok bool) {
	kills, valid := now.since(o.before)
	counted := valid && kills > 0
	i := slices.IndexFunc(o.victims, func(v oomVictim) bool { return v.PID == pid })
	switch {
	case i >= 0:
		k.Host = o.victims[i].Global
	case !counted || kills <= o.others()+uint64(len(o.counted)) && !o.counted[pid]:
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

// others returns the number of victims in our cgroup that the log names.
func (o *OOMKills) others() uint64 {
	seen := map[int]bool{}
	for _, v := range o.victims {
		if v.Group == o.counter.group {
			seen[v.PID] = true
		}
	}
	return uint64(len(seen))
}

// hostMemory returns the host's memory in bytes; 0: unknown.
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
