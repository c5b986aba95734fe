package process

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const statTail = " 34816 7 4194304 1 2 3 4 5 6 7 8 20 0 9 0 12345 6 7"

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, line string
		want       Proc
		ok         bool
	}{
		{"plain", "7 (cat) S 1 6 5" + statTail, Proc{
			PID: 7, PPID: 1, PGID: 6, SID: 5, Name: "cat", State: 'S', Threads: 9,
			Start: 12345, CPU: 11, ChildCPU: 15, Pages: 7,
		}, true},
		{
			"blanks and parentheses", "7 (a) R 9 (b) Z 1 6 5" + statTail,
			Proc{
				PID: 7, PPID: 1, PGID: 6, SID: 5, Name: "a) R 9 (b", State: 'Z', Threads: 9, Start: 12345, CPU: 11,
				ChildCPU: 15, Pages: 7,
			},
			true,
		},
		{
			"control bytes", "7 (\x1b[2J\n) S 1 6 5" + statTail,
			Proc{
				PID: 7, PPID: 1, PGID: 6, SID: 5, Name: "?[2J?", State: 'S', Threads: 9, Start: 12345, CPU: 11, ChildCPU: 15,
				Pages: 7,
			},
			true,
		},
		{"no name", "7 () S 1 6 5" + statTail, Proc{
			PID: 7, PPID: 1, PGID: 6, SID: 5, State: 'S', Threads: 9, Start: 12345,
			CPU: 11, ChildCPU: 15, Pages: 7,
		}, true},
		{"empty", "", Proc{}, false},
		{"cut off in the name", "7 (ca", Proc{}, false},
		{"cut off after it", "7 (cat)", Proc{}, false},
		{"cut off later", "7 (cat) S 1 6", Proc{}, false},
		{"no pid", "(cat) S 1 6 5" + statTail, Proc{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := parseStat([]byte(tt.line))
			require.Equal(t, tt.ok, ok)
			if ok {
				assert.Equal(t, tt.want, p)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (cat) S 1 6 5" + statTail))
	f.Add([]byte(" ("))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, ok := parseStat(line); ok {
			require.Positive(t, p.PID)
		}
	})
}

func TestDescribe(t *testing.T) {
	before := Now()
	p, err := Describe(os.Getpid())
	require.NoError(t, err)
	assert.Equal(t, os.Getppid(), p.PPID)
	assert.LessOrEqual(t, p.Start, before)
	assert.Greater(t, p.Threads, 1)
	assert.Equal(t, "trainer (pid 12, stopped)", Proc{PID: 12, Name: "trainer", State: 'T'}.String())

	_, err = Describe(1 << 30)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestNewProcessStartsNow(t *testing.T) {
	s := newScene(t)
	before := Now()
	p, err := Describe(s.start("", "sleeper").Process.Pid)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, p.Start, before)
	assert.LessOrEqual(t, p.Start, Now())
}

func TestMarkerInEnvironment(t *testing.T) {
	environ := func(variables ...string) []byte { return []byte(strings.Join(variables, "\x00")) }
	for _, tt := range []struct {
		name    string
		environ []byte
		want    Marker
	}{
		{"none", nil, ""},
		{"first", environ("GORUN_JOB=a:b", "HOME=/"), "a:b"},
		{"last", environ("HOME=/", "GORUN_JOB=a"), "a"},
		{"end of another's name", environ("MY_GORUN_JOB=a"), ""},
		{"in a value", environ("X=\nGORUN_JOB=a"), ""},
		{"longer name", environ("GORUN_JOB_STORE=a"), ""},
		{"twice", environ("GORUN_JOB=a", "GORUN_JOB=b"), "a"},
		{"of a rank inside Slurm", environ("GORUN_JOB_ENGINE=slurm:7", "SLURM_JOB_ID=7", "GORUN_JOB=a"), "a"},
		{"of a batch job that a rank submitted", environ("GORUN_JOB_ENGINE=slurm:7", "SLURM_JOB_ID=8", "GORUN_JOB=a"), ""},
		{"behind wiped memory", environ("", "", "GORUN_JOB=a", ""), "a"},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, markerIn(tt.environ)) })
	}
}

// An environment may be larger than the first buffer.
func TestMarkerBehindMuchElse(t *testing.T) {
	s := newScene(t)
	job := newID(t)
	cmd := inSession(command("sleeper", s.token))
	cmd.Env = []string{"A=" + strings.Repeat("x", 100_000), MarkerVar + "=" + job}
	s.run("", cmd)
	s.eventually(func() bool { return len(mustFind(t, Target{ID: job})) == 1 }, "found")
}
