package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rank 7 was ended by SIGKILL in the cgroup /job, with a limit of 2 GiB or none.
func TestOOMKills(t *testing.T) {
	const limited = "2147483648\n"
	for _, tt := range []struct {
		name  string
		kills string // memory.events afterwards; "": unreadable
		limit string
		want  OOMKill
		ok    bool
	}{
		{"one was killed", "oom_kill 4\n", limited, OOMKill{"memory.events oom_kill 3→4", 2 << 30, false}, true},
		{"no limit", "oom_kill 4\n", "max\n", OOMKill{Evidence: "memory.events oom_kill 3→4", Host: true}, true},
		{"two were killed", "oom_kill 5\n", limited, OOMKill{"memory.events oom_kill 3→5", 2 << 30, false}, true},
		{"nothing was counted", "oom_kill 3\n", limited, OOMKill{}, false},
		{"unreadable", "", limited, OOMKill{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machine := files(map[string]string{
				"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2,
				"sys/fs/cgroup/job/memory.events": "oom_kill 3\n", "sys/fs/cgroup/job/memory.max": tt.limit,
			})
			counter, err := newOOMCounter(machine)
			require.NoError(t, err)
			o := &OOMKills{begun: true, counter: counter, before: counter.read(), killed: map[int]bool{}}
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
			assert.Equal(t, strings.HasSuffix(tt.kills, "5\n"), ok, "each kill has one victim")
		})
	}
	_, ok := (&OOMKills{begun: true}).Killed(7)
	assert.False(t, ok, "no memory cgroup")
}
