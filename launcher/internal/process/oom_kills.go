package process

import (
	"bytes"
	"fmt"
	"os"
	"sync"
)

// OOMKills detects processes killed by the kernel's out-of-memory killer from the counter of our memory cgroup, which
// does not name the victim. The zero value is ready for Begin.
type OOMKills struct {
	mu      sync.Mutex
	begun   bool
	counter *oomCounter // nil: no memory cgroup
	before  oomCount
	killed  map[int]bool // the victims, as far as asked
}

// OOMKill describes how a process was killed for lack of memory.
type OOMKill struct {
	Evidence string // file and counter: "memory.events oom_kill 0→1"
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
	o.begun, o.killed = true, map[int]bool{}
	if o.counter, _ = newOOMCounter(os.DirFS("/")); o.counter != nil {
		o.before = o.counter.read()
	}
}

// Killed reports whether the kernel killed a process that SIGKILL has ended, as far as can be seen: each kill that was
// counted has one victim. It does not block.
func (o *OOMKills) Killed(pid int) (k OOMKill, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin()
	if o.counter == nil {
		return k, false
	}
	now := o.counter.read()
	kills, valid := now.since(o.before)
	if !valid || kills <= uint64(len(o.killed)) && !o.killed[pid] {
		return k, false
	}
	o.killed[pid] = true
	k = OOMKill{fmt.Sprintf("%s oom_kill %d→%d", o.counter.events, o.before.kills, now.kills), now.limit, now.limit == 0}
	if k.Host {
		k.Limit = hostMemory()
	}
	return k, true
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
