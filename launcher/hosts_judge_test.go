package launcher

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/version"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/placement"
)

// judged returns what gorun hosts check finds after a test has changed the facts of healthy hosts.
func judged(change func(list []*doctor.Host)) (lines []string) {
	c := doctor.Cluster{Gorun: version.String(), Program: "./trainer", Asked: 4}
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		c.Hosts = append(c.Hosts, &doctor.Host{
			Name: name, Gorun: version.String(), Architecture: "x86_64", Clock: &doctor.Clock{}, UID: 1000,
			DiskSpace: []doctor.DiskSpace{
				{Purpose: "cache", Path: "/home/u/.cache", Free: 1 << 40},
				{Purpose: "temporary files", Path: "/tmp", Free: 1 << 40},
			},
			Limits: map[string]doctor.Limit{
				"memlock": {Soft: 64 << 10, Hard: 64 << 10}, "nofile": {Soft: 1024, Hard: 4096}, "nproc": {Soft: -1, Hard: -1},
			},
			Program: &doctor.Program{Path: "./trainer", Size: 10, SHA256: strings.Repeat("a", 64)},
			Machine: placement.Machine{
				CPUs: placement.CPUSetOf([]uint64{3}), GPUs: []placement.GPU{{Index: 0, Name: "X"}, {Index: 1, Name: "X"}},
			},
		})
	}
	change(c.Hosts)
	for _, f := range doctor.Diagnose(&c, doctor.Start...) {
		line := f.Where() + ": " + f.Text
		if f.Severity == doctor.Note {
			line = "note: " + line
		}
		lines = append(lines, line)
	}
	return lines
}

func TestJudgeHosts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(h []*doctor.Host)
		want   []string
	}{
		"all is well": {func([]*doctor.Host) {}, nil},
		"a clock that is behind": {
			func(h []*doctor.Host) { h[1].Clock = &doctor.Clock{Ahead: -3, Uncertainty: 0.1} },
			[]string{"n2: its clock is 3.0 s behind this host's"},
		},
		"a slow way is no wrong clock": {func(h []*doctor.Host) {
			h[1].Clock = &doctor.Clock{Ahead: -3, Uncertainty: 2.5}
		}, nil},
		"another gorun": {
			func(h []*doctor.Host) { h[1].Gorun = "0.2" },
			[]string{"n2: its gorun is 0.2, this one " + version.String()},
		},
		"the same on two": {
			func(h []*doctor.Host) { h[1].DiskSpace[1].Free, h[2].DiskSpace[1].Free = 1<<20, 1<<20 },
			[]string{"n[2-3]: almost no space is left in /tmp (temporary files)"},
		},
		"a home that cannot be written": {
			func(h []*doctor.Host) { h[0].DiskSpace[0].Error = "read-only file system" },
			[]string{"note: n1: /home/u/.cache (cache): read-only file system"},
		},
		"few files": {
			func(h []*doctor.Host) { h[0].Limits["nofile"] = doctor.Limit{Soft: 256} },
			[]string{"n1: only 256 open files are allowed"},
		},
		"little locked memory for InfiniBand": {
			func(h []*doctor.Host) { h[0].RDMA = []doctor.Port{{Device: "mlx5_0", Port: 1, State: "ACTIVE"}} },
			[]string{"n1: memlock is 64 KiB, but RDMA must lock memory"},
		},
		"no directory, which makes the program missing too": {
			func(h []*doctor.Host) {
				h[3].Program = &doctor.Program{
					Dir: "/home/u", NoDir: "no such file or directory", Error: "./trainer: no such file",
				}
			},
			[]string{"n4: the working directory /home/u: no such file or directory"},
		},
		"a missing program": {
			func(h []*doctor.Host) { h[3].Program = &doctor.Program{Error: "./trainer: no such file"} },
			[]string{"n4: ./trainer: no such file"},
		},
		"an old program": {
			func(h []*doctor.Host) { h[0].Program.SHA256 = strings.Repeat("b", 64) },
			[]string{"n1: ./trainer is another file than on 3 others"},
		},
		"a program that is compared in part": {
			func(h []*doctor.Host) {
				for i := range h {
					h[i].Program.Size = doctor.ProgramBytes + 1<<20
				}
			},
			[]string{"note: n[1-4]: of trainer, which has 1025 MiB, the first 1024 were compared"},
		},
		"another machine": {func(h []*doctor.Host) {
			h[2].Architecture = "aarch64"
		}, []string{"n3: it is aarch64, 3 others x86_64"}},
		"a lost GPU": {func(h []*doctor.Host) {
			h[2].Machine.GPUs = h[2].Machine.GPUs[:1]
		}, []string{"n3: it has 1 GPU, 3 others 2 GPUs"}},
		"GPUs in use": {func(h []*doctor.Host) {
			h[2].Machine.GPUs[1].Used = true
		}, []string{"n3: 1 GPU is in use: 1"}},
		"other GPUs, and a note": {
			func(h []*doctor.Host) {
				gpus := h[2].Machine.GPUs
				gpus[0].Name, gpus[1].Name, h[1].Unknown = "Y", "Y", []string{"something"}
			},
			[]string{"note: n2: something", "note: n3: its GPUs are Y, 3 others X"},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, judged(test.change)) })
	}
}

func TestPromptsDoNotCountAsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a prompts
		ask := a.wrap(func(string) (string, error) {
			time.Sleep(time.Minute)
			return "secret", nil
		})
		began := time.Now()
		ctx, cancel := a.limit(context.Background(), 3*time.Second)
		defer cancel()
		go func() { _, _ = ask("") }()
		<-ctx.Done()
		assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
		assert.InDelta(t, time.Minute+3*time.Second, time.Since(began), float64(100*time.Millisecond))
	})
	assert.Nil(t, (&prompts{}).wrap(nil))
}

func TestMergeErrorsWithoutAddresses(t *testing.T) {
	s := &session{}
	var errs []error
	for _, name := range []string{"n1", "n2", "n3"} {
		s.nodes = append(s.nodes, &node{host: hosts.Host{Name: name}, name: name})
		errs = append(errs, &Error{
			Text: "connect: u@" + name + ":22 does not answer", target: "u@" + name + ":22",
			Hint: "is it up?",
		})
	}
	require.EqualError(t, flatten(s.joinErrors(errs))[0], "n[1-3]: connect: the host does not answer")
	errs[0], errs[1] = nil, nil
	require.EqualError(t, flatten(s.joinErrors(errs))[0], "n3: connect: u@n3:22 does not answer")
	for i, name := range []string{"a", "o", "t"} { // letters of the text
		s.nodes[i].name, errs[i] = name, &Error{Text: "cannot resolve host name", target: name}
	}
	require.EqualError(t, flatten(s.joinErrors(errs))[0], "a,o,t: cannot resolve host name")
}
