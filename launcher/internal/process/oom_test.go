package process

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func files(text map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, content := range text {
		m[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return m
}

const (
	unlimited = "9223372036854771712\n"
	mountV2   = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1   = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	mountDocker  = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	groupsHybrid = "9:name=systemd:/s\n4:memory:/job\n1:cpu,cpuacct:/\n0::/unified\n"
)

func TestOOMWatch(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  oomCount
	}{
		{"v2, limit of the parent", map[string]string{
			"proc/self/cgroup": "0::/slice/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/slice/job/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n",
			"sys/fs/cgroup/slice/job/memory.max":    "max\n",
			"sys/fs/cgroup/slice/memory.max":        "2147483648\n",
		}, oomCount{kills: 3, limit: 2 << 30, valid: true}},
		{"v2, no limit", map[string]string{
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/job/memory.events": "oom_kill 0\n", "sys/fs/cgroup/job/memory.max": "max\n",
		}, oomCount{valid: true}},
		{"v2, root group", map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2}, oomCount{}},
		{"v1 beside v2", map[string]string{
			"proc/self/cgroup": groupsHybrid, "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/memory/job/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1048576\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     unlimited,
		}, oomCount{kills: 4, limit: 1 << 20, valid: true}},
		{"v1 before Linux 4.13", map[string]string{
			"proc/self/cgroup": groupsHybrid, "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/memory/job/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": unlimited,
		}, oomCount{}},
		{"a container's own group is its root", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/abc/sub\n", "proc/self/mountinfo": mountDocker,
			"sys/fs/cgroup/memory/sub/memory.oom_control": "oom_kill 1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":  "4096\n",
		}, oomCount{kills: 1, limit: 4096, valid: true}},
		{"a container that sees the host's path", map[string]string{
			"proc/self/cgroup": "4:memory:/kube/pod\n", "proc/self/mountinfo": mountDocker,
			"sys/fs/cgroup/memory/memory.oom_control": "oom_kill 1\n",
		}, oomCount{kills: 1, valid: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := newOOMCounter(files(tt.files))
			require.NoError(t, err)
			assert.Equal(t, tt.want, w.read())
		})
	}
}

func TestOOMWatchWithoutCgroups(t *testing.T) {
	_, err := newOOMCounter(files(nil))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = newOOMCounter(files(map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": ""}))
	require.ErrorContains(t, err, "not mounted")
}

func TestOOMSince(t *testing.T) {
	state := func(kills uint64) oomCount { return oomCount{kills: kills, limit: 7, valid: true} }
	kills, ok := state(3).since(state(1))
	assert.Equal(t, uint64(2), kills)
	assert.True(t, ok)
	_, ok = state(1).since(state(3))
	assert.False(t, ok, "another group's counter")
	_, ok = state(1).since(oomCount{})
	assert.False(t, ok)
	_, ok = oomCount{}.since(state(1))
	assert.False(t, ok)
}

// The counters of this machine are readable, and two successive readings agree.
func TestOOMWatchHere(t *testing.T) {
	w, err := newOOMCounter(os.DirFS("/"))
	if _, missing := os.Stat("/sys/fs/cgroup"); missing != nil {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	before := w.read()
	kills, ok := w.read().since(before)
	assert.Zero(t, kills)
	assert.Equal(t, before.valid, ok)
}
