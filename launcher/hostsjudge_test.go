package launcher

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// judged are the problems of hosts that a test makes from one that is well.
func judged(change func(list []HostReport)) (lines []string) {
	c := &hostsCheck{session: &session{}, report: HostsReport{Version: "1", Program: "./trainer"}}
	for i, name := range []string{"n1", "n2", "n3", "n4"} {
		c.nodes = append(c.nodes, &node{place: i, name: name})
		c.report.Hosts = append(c.report.Hosts, HostReport{
			Name: name, Reached: true, Version: "1", Architecture: "x86_64", Dir: "/home/u", Clock: &ClockReport{},
			Rooms: []RoomReport{
				{Purpose: "cache", Path: "/home/u/.cache", Free: 1 << 40},
				{Purpose: "temporary files", Path: "/tmp", Free: 1 << 40},
			},
			Limits:  []LimitReport{{"memlock", 64 << 10, 64 << 10}, {"nofile", 1024, 4096}, {"nproc", -1, -1}},
			Program: &ProgramReport{Path: "./trainer", Size: 10, SHA256: strings.Repeat("a", 64)},
			GPUs:    []placement.GPU{{Index: 0, Name: "X"}, {Index: 1, Name: "X"}},
		})
	}
	change(c.report.Hosts)
	c.judge()
	for _, p := range c.report.Problems {
		line := p.String()
		if p.Remark {
			line = "remark: " + line
		}
		lines = append(lines, line)
	}
	return lines
}

func TestJudgeHosts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(h []HostReport)
		want   []string
	}{
		"all is well": {func([]HostReport) {}, nil},
		"a clock that is behind": {
			func(h []HostReport) { h[1].Clock = &ClockReport{Ahead: -3, Uncertainty: 0.1} },
			[]string{"n2: its clock is 3.0 s behind this host's"},
		},
		"a slow way is no wrong clock": {func(h []HostReport) {
			h[1].Clock = &ClockReport{Ahead: -3, Uncertainty: 2.5}
		}, nil},
		"another gorun": {
			func(h []HostReport) { h[1].Version, h[1].Executable = "2", "/bin/gorun" },
			[]string{"n2: its gorun is 2, this one 1 (/bin/gorun)"},
		},
		"the same on two": {
			func(h []HostReport) { h[1].Rooms[1].Free, h[2].Rooms[1].Free = 1<<20, 1<<20 },
			[]string{"n[2-3]: only 1 MiB are free in /tmp (temporary files)"},
		},
		"a home that cannot be written": {
			func(h []HostReport) { h[0].Rooms[0].Error = "read-only file system" },
			[]string{"remark: n1: /home/u/.cache (cache): read-only file system"},
		},
		"few files": {func(h []HostReport) { h[0].Limits[1].Soft = 256 }, []string{"n1: nofile is 256"}},
		"little locked memory for InfiniBand": {
			func(h []HostReport) { h[0].InfiniBand = true },
			[]string{"n1: memlock is 64 KiB, and InfiniBand has to lock memory"},
		},
		"no directory, which makes the program missing too": {
			func(h []HostReport) {
				h[3].Missing, h[3].Program = "no such file or directory", &ProgramReport{Error: "./trainer: no such file"}
			},
			[]string{"n4: the working directory /home/u: no such file or directory"},
		},
		"a missing program": {
			func(h []HostReport) { h[3].Program = &ProgramReport{Error: "./trainer: no such file"} },
			[]string{"n4: ./trainer: no such file"},
		},
		"an old program": {
			func(h []HostReport) { h[0].Program.SHA256 = strings.Repeat("b", 64) },
			[]string{"n1: ./trainer is not the same as on 3 others: its SHA-256 begins with bbbbbbbbbbbb, there with " +
				"aaaaaaaaaaaa"},
		},
		"another machine": {func(h []HostReport) {
			h[2].Architecture = "aarch64"
		}, []string{"n3: it is aarch64, 3 others x86_64"}},
		"a lost GPU": {func(h []HostReport) {
			h[2].GPUs = h[2].GPUs[:1]
		}, []string{"n3: it has 1 GPU, 3 others 2 GPUs"}},
		"GPUs in use": {func(h []HostReport) { h[2].GPUs[1].Used = true }, []string{"n3: 1 of 2 GPUs are in use: 1"}},
		"other GPUs, and a note": {
			func(h []HostReport) {
				h[2].GPUs[0].Name, h[2].GPUs[1].Name, h[1].Notes = "Y", "Y", []string{"something"}
			},
			[]string{"remark: n3: its GPUs are Y, 3 others X", "remark: n2: something"},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, judged(test.change)) })
	}
}

func TestTheTimeOfAPersonIsNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asking
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
		assert.InDelta(t, time.Minute+3*time.Second, time.Since(began), float64(askingPause))
	})
	assert.Nil(t, (&asking{}).wrap(nil))
}

func TestFailuresThatDifferInTheAddressAreToldOnce(t *testing.T) {
	s := &session{}
	var errs []error
	for _, name := range []string{"n1", "n2", "n3"} {
		s.nodes = append(s.nodes, &node{host: hosts.Host{Name: name}, name: name})
		errs = append(errs, &Error{
			Text: "connect: u@" + name + ":22 does not answer", target: "u@" + name + ":22",
			Hint: "is it up?",
		})
	}
	require.EqualError(t, flatten(s.join(errs))[0], "n[1-3]: connect: the host does not answer")
	errs[0], errs[1] = nil, nil
	require.EqualError(t, flatten(s.join(errs))[0], "n3: connect: u@n3:22 does not answer")
}
