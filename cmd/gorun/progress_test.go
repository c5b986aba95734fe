package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher"
	"gorun/launcher/doctor"
)

// onTheWay are 64 hosts: two are authenticating, one has failed, and the last five are connecting.
func onTheWay() (list []launcher.HostProgress) {
	for i := 1; i <= 64; i++ {
		h := launcher.HostProgress{Name: fmt.Sprintf("node%02d", i), Step: "ready", Reached: true, Ready: true}
		switch {
		case i == 7 || i == 31:
			h = launcher.HostProgress{Name: h.Name, Step: "authentication"}
		case i == 9:
			h = launcher.HostProgress{Name: h.Name, Step: "host key", Failed: true}
		case i >= 60:
			h = launcher.HostProgress{Name: h.Name, Step: "connect"}
		}
		list = append(list, h)
	}
	return list
}

func TestProgressLine(t *testing.T) {
	line := barStyle{}.line(onTheWay(), 1800*time.Millisecond, 200)
	assert.Equal(t, "Reaching "+strings.Repeat("━", 21)+strings.Repeat("─", 3)+
		" 56/64 hosts  1.8 s   node09 failed (host key) · waiting: node[07,31] authentication · node[60-64] connecting",
		line)
	line = barStyle{ascii: true}.line(onTheWay(), time.Second, 200)
	assert.Contains(t, line, "Reaching =====================... 56/64 hosts  1.0 s   node09 failed (host key), waiting:")
	assert.Less(t, len(line), 200)
	for _, r := range line {
		require.Less(t, r, rune(utf8.RuneSelf), "%q", line)
	}
}

func TestProgressLineIsNarrowerThanTheTerminal(t *testing.T) {
	for width := 1; width < 130; width++ {
		line := barStyle{}.line(onTheWay(), time.Second, width)
		assert.Less(t, utf8.RuneCountInString(line), max(width, 2), "%q", line)
	}
}

func TestProgressOfCopies(t *testing.T) {
	list := []launcher.HostProgress{
		{Name: "a1", Step: "copy", Reached: true, Sent: 30, Total: 100},
		{Name: "a2", Step: "copy", Reached: true, Sent: 60, Total: 100},
		{Name: "a3", Step: "waiting"},
	}
	assert.Equal(t, []string{"waiting: a3 not begun", "a[1-2] copying gorun 45 %"}, waitingTexts(list))
	assert.Equal(t, "0 of 3 hosts reached after 2.0 s", reachedCount(list, 2*time.Second))
}

func TestHostsTextMergesEqualHosts(t *testing.T) {
	limits := func(memlock int64) []launcher.LimitReport {
		return []launcher.LimitReport{
			{Name: "memlock", Limit: doctor.Limit{Soft: memlock}}, {Name: "nofile", Limit: doctor.Limit{Soft: 1024}},
		}
	}
	r := &launcher.HostsReport{Version: "1.0", Program: "./trainer"}
	for i := 1; i <= 16; i++ {
		r.Hosts = append(r.Hosts, launcher.HostReport{
			Name: fmt.Sprintf("node%02d", i), Reached: true, Seconds: 0.2 + float64(i)/100, Version: "1.0",
			Architecture: "x86_64", Kernel: "6.8.0", CPUs: 96,
			Clock: &doctor.Clock{Ahead: 0.0002, Uncertainty: 0.0004},
			Rooms: []doctor.DiskSpace{
				{Purpose: "cache", Free: int64(i) << 30},
				{Purpose: "temporary files", Free: 1 << 40},
			},
			Limits:  limits(-1),
			Program: &doctor.Program{Path: "./trainer", Size: 4096, SHA256: strings.Repeat("ab", 32)}, Dir: "/home/u",
		})
	}
	odd := &r.Hosts[2]
	odd.Clock = &doctor.Clock{Ahead: 12, Uncertainty: 0.001}
	odd.Limits = limits(64 << 10)
	r.Hosts[8] = launcher.HostReport{Name: "node09", Step: "authentication", Seconds: 0.31}
	r.Problems = []doctor.Problem{
		{Hosts: []string{"node09"}, Text: "authentication: no key", Hint: "ssh-add"},
		{Hosts: []string{"node03"}, Text: "its clock is 12.0 s ahead of this host's"},
	}
	assert.Equal(t, `host                     reached    clock    cache       tmp         limits
node[01-02,04-08,10-16]  0.2-0.4 s  < 1 ms   1 GiB free  1 TiB free  memlock unlimited, nofile 1024
node03                   0.2 s      +12.0 s  3 GiB free  1 TiB free  memlock 64 KiB, nofile 1024
node09                   no: authentication (0.3 s)

gorun      1.0
machine    x86_64, Linux 6.8.0, 96 CPUs
GPUs       none
directory  /home/u
program    ./trainer, 4 KiB, SHA-256 abababababab

2 problems
  node09: authentication: no key
    hint: ssh-add
  node03: its clock is 12.0 s ahead of this host's
`, hostsText(r, false, 0))
	assert.True(t, strings.HasPrefix(hostsText(r, true, 0), "2 problems\n"))
	for line := range strings.Lines(hostsText(r, false, 60)) {
		assert.LessOrEqual(t, len(line), 61, line)
	}
	r.Problems = nil
	assert.Empty(t, hostsText(r, true, 0))
	assert.True(t, strings.HasSuffix(hostsText(r, false, 0), "\nnothing is wrong\n"))
}
