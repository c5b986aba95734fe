package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestKernelRecords(t *testing.T) {
	tests := []struct {
		name, record string
		want         oomVictim
		ok           bool
	}{
		{
			"of a cgroup",
			"6,970,22432247271,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0," +
				"oom_memcg=/job,task_memcg=/job/a,b,task=python3,pid=28767,uid=0\n",
			oomVictim{28767, false, "/job/a,b"},
			true,
		},
		{
			"of the host",
			"6,970,1,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom," +
				"task_memcg=/user.slice,task=x,pid=7,uid=1000\n SUBSYSTEM=memory\n",
			oomVictim{7, true, "/user.slice"},
			true,
		},
		{
			"a name that tries to look like one",
			"6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/j," +
				"task_memcg=/j,task=a,pid=1,uid=0,pid=8,uid=0\n",
			oomVictim{8, false, "/j"},
			true,
		},
		{
			"killed, cgroup",
			"3,971,1,-;Memory cgroup out of memory: Killed process 28767 (python3) total-vm:426184kB, anon-rss:1kB\n",
			oomVictim{28767, false, ""},
			true,
		},
		{"killed, host", "3,971,1,c;Out of memory: Killed process 9 (a) (b)) total-vm:4kB\n", oomVictim{9, true, ""}, true},
		{
			"killed, host, by the one that asked",
			"3,971,1,-;Out of memory (oom_kill_allocating_task): Killed process 9 (a) total-vm:4kB\n",
			oomVictim{9, true, ""},
			true,
		},
		{"killed, before Linux 5", "3,971,1,-;Killed process 9 (a), UID 5, total-vm:4kB\n", oomVictim{PID: 9}, true},
		{"killed, before Linux 4.19", "3,971,1,-;Killed process 9, UID 5, (a) total-vm:4kB\n", oomVictim{PID: 9}, true},
		{"only chosen", "3,971,1,-;Out of memory: Kill process 9 (a) score 900 or sacrifice child\n", oomVictim{}, false},
		{"a program's own words", "12,1,1,-;Out of memory: Killed process 9 (a)\n", oomVictim{}, false},
		{"something else", "6,1,1,-;Killed process[9]: segfault at 0\n", oomVictim{}, false},
		{"something else that ends alike", "6,1,1,-;watchdog: Killed process 9 (a)\n", oomVictim{}, false},
		{"no pid", "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=x\n", oomVictim{}, false},
		{"pid is no number", "6,1,1,-;Killed process 9999999999999999999999 (a)\n", oomVictim{}, false},
		{"no head", "Killed process 9 (a)\n", oomVictim{}, false},
		{"nothing", "", oomVictim{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseKernelRecord([]byte(tt.record))
			assert.Equal(t, tt.ok, ok)
			if tt.ok {
				assert.Equal(t, tt.want, got)
			}
		})
	}
}

// logged returns a kernel log with these records; "" is a record that was overwritten.
func logged(records ...string) *kernelLog {
	return &kernelLog{read: func(_ int, p []byte) (int, error) {
		if len(records) == 0 {
			return 0, unix.EAGAIN
		}
		record := records[0]
		if records = records[1:]; record == "" {
			return 0, unix.EPIPE
		}
		return copy(p, record), nil
	}}
}

func TestKernelLogGoesOnAfterOverwrittenRecords(t *testing.T) {
	l := logged("6,1,1,-;something", "", "3,2,1,-;Killed process 9 (a)\n", "3,3,1,-;Killed process 10 (a)\n")
	assert.Equal(t, []oomVictim{{PID: 9}, {PID: 10}}, l.victims())
	assert.Empty(t, l.victims())
}

func TestKernelLogNeverHoldsUp(t *testing.T) {
	n := 0
	l := &kernelLog{read: func(_ int, p []byte) (int, error) { n++; return copy(p, "6,1,1,-;endless"), nil }}
	assert.Empty(t, l.victims())
	assert.Equal(t, kernelRecords, n)
}

// The kernel log of this machine can be read without blocking, as far as permissions allow.
func TestKernelLogHere(t *testing.T) {
	if l, err := newKernelLog(); err == nil {
		defer unix.Close(l.fd)
		l.victims()
	}
}

func TestKernelLines(t *testing.T) {
	const log = "ff at 2.4\n<6>[    2.400000] before the job\n<3>[    2.500000] mlx5_0: link down\n<6>no time\n"
	assert.Equal(t, "[    2.500000] mlx5_0: link down\n", string(kernelLines([]byte(log), 250)))
}
