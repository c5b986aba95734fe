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
	"gorun/placement"
	"gorun/placement/draw"
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
	limits := func(memlock int64) map[string]doctor.Limit {
		return map[string]doctor.Limit{"memlock": {Soft: memlock}, "nofile": {Soft: 1024}}
	}
	c := &doctor.Cluster{Program: "./trainer", Asked: 16}
	for i := 1; i <= 16; i++ {
		h := &doctor.Host{
			Name: fmt.Sprintf("node%02d", i), Gorun: "1.0", Architecture: "x86_64", Kernel: "6.8.0",
			Clock: &doctor.Clock{Ahead: 0.0002, Uncertainty: 0.0004},
			DiskSpace: []doctor.DiskSpace{
				{Purpose: "cache", Free: int64(i) << 30},
				{Purpose: "temporary files", Free: 1 << 40},
			},
			Limits:  limits(-1),
			Program: &doctor.Program{Path: "./trainer", Size: 4096, SHA256: strings.Repeat("ab", 32)}, Dir: "/home/u",
		}
		h.Machine.CPUs = placement.CPUSetOf([]uint64{1<<48 - 1, 1<<48 - 1})
		c.Reached = append(c.Reached, doctor.Reached{Name: h.Name, OK: true, Seconds: 0.2 + float64(i)/100, Host: h})
	}
	odd := c.Reached[2].Host
	odd.Clock = &doctor.Clock{Ahead: 12, Uncertainty: 0.001}
	odd.Limits = limits(64 << 10)
	c.Reached[8] = doctor.Reached{Name: "node09", Step: "authentication", Seconds: 0.31}
	for _, r := range c.Reached {
		if r.Host != nil {
			c.Hosts = append(c.Hosts, r.Host)
		}
	}
	d := diagnosis{cluster: c, all: true, style: draw.Style{ASCII: true}, findings: []doctor.Finding{
		{
			Check: "reach", Severity: doctor.Error, Hosts: []string{"node09"}, Text: "authentication: no key",
			Advice: "load a key", Fix: "ssh-add",
		},
		{
			Check: "no-address", Severity: doctor.Error, Hosts: []string{"node01"}, Text: "no address:\n  10.0.0.1: refused",
		},
		{
			Check: "clock", Severity: doctor.Warning, Hosts: []string{"node03"}, Evidence: "its agent's answers",
			Text: "its clock is 12.0 s ahead of this host's",
		},
		{Check: "room", Severity: doctor.Note, Hosts: []string{"node01"}, Text: "a note"},
	}}
	assert.Equal(t, `host                  reached    clock    cache       tmp         limits
node01                0.2 s      < 1 ms   1 GiB free  1 TiB free  memlock unlimited, nofile 1024
node[02,04-08,10-16]  0.2-0.4 s  < 1 ms   2 GiB free  1 TiB free  memlock unlimited, nofile 1024
node03                0.2 s      +12.0 s  3 GiB free  1 TiB free  memlock 64 KiB, nofile 1024
node09                no: authentication (0.3 s)

gorun      1.0
machine    x86_64, Linux 6.8.0, 96 CPUs
GPUs       none
directory  /home/u
program    ./trainer, 4 KiB, SHA-256 abababababab

X node09: authentication: no key [reach]
    load a key
    try:  ssh-add
X node01: no address: [no-address]
      10.0.0.1: refused
! node03: its clock is 12.0 s ahead of this host's [clock]
- node01: a note [room]
`, d.hostsText(false))
	assert.True(t, strings.HasPrefix(d.hostsText(true), "X node09: "))
	assert.NotContains(t, d.hostsText(true), "a note")
	d.style.Width = 60
	for line := range strings.Lines(d.hostsText(false)) {
		assert.LessOrEqual(t, len(line), 61, line)
	}
	d.findings = nil
	assert.Empty(t, d.hostsText(true))
	assert.True(t, strings.HasSuffix(d.hostsText(false), "\nnothing is wrong\n"))
}
