package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rank 7 was ended by SIGKILL in the cgroup /job, with a limit of 2 GiB or none.
func TestOOMKills(t *testing.T) {
	const (
		rank      = "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/job,task_memcg=/job,task=x,pid=7,uid=0\n"
		other     = "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/job,task_memcg=/job,task=x,pid=8,uid=0\n"
		otherSaid = "3,2,1,-;Memory cgroup out of memory: Killed process 8 (x) total-vm:1kB\n"
		otherJob  = "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/b,task_memcg=/b,task=x,pid=9,uid=0\n"
		host      = "6,1,1,-;oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/job,task=x,pid=7,uid=0\n"
	)
	limited, unlimitedHost := "2147483648\n", "max\n"
	tests := []struct {
		name  string
		kills string // memory.events afterwards; "": unreadable
		limit string
		log   *kernelLog
		want  OOMKill
		ok    bool
	}{
		{"the counter alone", "oom_kill 4\n", limited, nil, OOMKill{"memory.events oom_kill 3→4", 2 << 30, false}, true},
		{
			"the counter alone, no limit", "oom_kill 4\n", unlimitedHost, nil,
			OOMKill{Evidence: "memory.events oom_kill 3→4", Host: true},
			true,
		},
		{"two were killed", "oom_kill 5\n", limited, nil, OOMKill{"memory.events oom_kill 3→5", 2 << 30, false}, true},
		{"nothing was counted", "oom_kill 3\n", limited, nil, OOMKill{}, false},
		{
			"counter and log", "oom_kill 4\n", limited, logged(rank),
			OOMKill{"memory.events oom_kill 3→4", 2 << 30, false},
			true,
		},
		{"another was killed, this one from outside", "oom_kill 4\n", limited, logged(other, otherSaid), OOMKill{}, false},
		{
			"two were killed, one is not in the log yet", "oom_kill 5\n", limited, logged(other, otherSaid),
			OOMKill{"memory.events oom_kill 3→5", 2 << 30, false},
			true,
		},
		{
			"the log left out the group", "oom_kill 4\n", limited, logged(otherSaid),
			OOMKill{"memory.events oom_kill 3→4", 2 << 30, false},
			true,
		},
		{
			"another's group", "oom_kill 4\n", limited, logged(otherJob),
			OOMKill{"memory.events oom_kill 3→4", 2 << 30, false},
			true,
		},
		{
			"the host, though there is a limit", "oom_kill 4\n", limited, logged(host),
			OOMKill{Evidence: "memory.events oom_kill 3→4", Host: true},
			true,
		},
		{"the log alone", "", limited, logged(host), OOMKill{Evidence: "kernel log", Host: true}, true},
		{"the rank in a group of its own", "oom_kill 3\n", limited, logged(rank), OOMKill{Evidence: "kernel log"}, true},
		{"neither", "", limited, logged(otherJob), OOMKill{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			group := map[string]string{
				"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2,
				"sys/fs/cgroup/job/memory.events": "oom_kill 3\n", "sys/fs/cgroup/job/memory.max": tt.limit,
			}
			machine := files(group)
			counter, err := newOOMCounter(machine)
			require.NoError(t, err)
			o := &OOMKills{begun: true, counter: counter, before: counter.read(), log: tt.log}
			machine["sys/fs/cgroup/job/memory.events"].Data = []byte(tt.kills)
			got, ok := o.Killed(7)
			assert.Equal(t, tt.ok, ok)
			if tt.want.Host {
				assert.NotZero(t, got.Limit, "this host's memory")
				got.Limit = 0
			}
			assert.Equal(t, tt.want, got)
			_, again := o.Killed(7)
			assert.Equal(t, tt.ok, again, "a later look knows as much")
			_, ok = o.Killed(70)
			assert.Equal(t, strings.HasSuffix(tt.kills, "5\n") && tt.log == nil, ok, "each kill has one victim")
		})
	}
}

// Without a memory cgroup the kernel log reports the kill.
func TestOOMKillsWithoutCgroup(t *testing.T) {
	o := &OOMKills{begun: true, log: logged("3,2,1,-;Out of memory: Killed process 7 (x) total-vm:1kB\n")}
	kill, ok := o.Killed(7)
	assert.True(t, ok)
	assert.True(t, kill.Host)
	_, ok = (&OOMKills{begun: true}).Killed(7)
	assert.False(t, ok)
}
