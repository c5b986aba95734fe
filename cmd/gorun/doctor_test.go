package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement/draw"
)

// gorun doctor finds problems of single hosts over SSH: a small file system, a different program or MTU, a host
// that is down.
func TestDoctorOverSSH(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 4, PrivateHome: true})
	dir := t.TempDir()
	program, old := filepath.Join(dir, "trainer"), filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n: new\n"), 0o755))
	require.NoError(t, os.WriteFile(old, []byte("#!/bin/sh\n: old\n"), 0o755))
	require.NoError(t, set.Mount("h2", "--bind", old, program))
	require.NoError(t, set.Mount("h3", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/dev/shm"))
	said, err := set.Command("h1", "ip", "link", "set", "eth0", "mtu", "1280").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NoError(t, set.SSHD("h4").Stop())
	gorun := ownGorun(t)

	cmd := onHead(set, gorun, set.SSHConfig(), "doctor", "--json", "-H", "h[1-4]", program)
	out, err := cmd.Output()
	assert.Equal(t, exitFindings, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
	require.NoError(t, checkDocument(out))
	var report struct{ Findings []doctor.Finding }
	require.NoError(t, json.Unmarshal(out, &report), "%s", out)
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.Check+" "+f.Where()] = f.Text
	}
	assert.Contains(t, found["reach h4"], "refused")
	assert.Equal(t, program+" is another file than on 2 others", found["program-differs h2"])
	assert.Equal(t, "/dev/shm has only 1 MiB", found["shm h3"])
	assert.Equal(t, "eth0 has an MTU of 1280, on 2 others 1500", found["mtu h1"])
	assert.NotContains(t, found, "clock h1")

	cmd = onHead(set, gorun, set.SSHConfig(), "doctor", "-H", "h1,h2,h3,h4", program)
	out, err = cmd.Output()
	assert.Equal(t, exitFindings, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
	assert.LessOrEqual(t, strings.Count(string(out), "\n"), 20)
	for _, line := range []string{"✓ clock < ", "✗ h4: connect: ", "✗ h2: " + program +
		" is another file than on 2 others [program-differs]", "⚠ h3: /dev/shm has only 1 MiB [shm]"} {
		assert.Contains(t, string(out), line)
	}
}

// Without -v, gorun prints at most twenty lines on a terminal.
func TestDiagnosisIsShort(t *testing.T) {
	c := &doctor.Cluster{Asked: 2, Gorun: "v1"}
	for _, name := range []string{"n1", "n2"} {
		c.Hosts = append(c.Hosts, &doctor.Host{Name: name, Limits: map[string]doctor.Limit{}})
	}
	for i := range 30 {
		c.Notes = append(c.Notes, doctor.Finding{
			Severity: doctor.Warning, Text: fmt.Sprint("problem ", i),
			Evidence: "evidence", Fix: "repair it",
		})
		c.Notes = append(c.Notes, doctor.Finding{Severity: doctor.Note, Text: fmt.Sprint("hint\n", i)})
	}
	findings := doctor.Diagnose(c)
	text := diagnosis{c, findings, draw.Style{ASCII: true}, false, false, "gorun doctor -v -H n[1-2]"}.text()
	assert.LessOrEqual(t, strings.Count(text, "\n"), 20)
	assert.Contains(t, text, "ok 2 of 2 hosts reached, same gorun  ok limits")
	assert.Contains(t, text, "! n[1-2]: problem 0 [environment]\n    try:  repair it\n")
	assert.Contains(t, text,
		"and 23 more findings (environment): gorun doctor -v -H n[1-2]\n30 notes: gorun doctor -v -H n[1-2]\n")
	assert.NotContains(t, text, "nothing is wrong")
	c.Program, c.Network = "./trainer", &doctor.Network{Summary: "2 of 2 paths between 2 hosts work"}
	for _, h := range c.Hosts {
		h.Kernel, h.Names, h.ProcessesKnown, h.Clock = "6.8", &doctor.Names{}, true, &doctor.Clock{}
		h.Shm, h.Memory.Total = &doctor.FileSystem{Type: "tmpfs", Total: 1 << 40, Free: 1 << 40}, 1<<40
		h.Python = doctor.Python{Packages: map[string]string{"torch": "2.9.1+cu128.with.a.long.version"}}
		h.RDMA, h.Interfaces = []doctor.Port{{Device: "mlx5_0", Port: 1, State: "ACTIVE"}},
			[]doctor.Interface{{Name: "eth0", Physical: true}}
	}
	narrow := draw.Style{ASCII: true, Width: draw.MinWidth}
	text = diagnosis{c, findings, narrow, false, false, "gorun doctor -v -H n[1-2]"}.text()
	assert.Equal(t, 20, strings.Count(text, "\n"))
	assert.Contains(t, text, "\nok ...\n! n[1-2]: problem 0 [environment]\n")
	long := append(findings[:1:1], doctor.Finding{Severity: doctor.Error, Text: "no address:" + strings.Repeat("\n", 20)})
	assert.Contains(t, diagnosis{c, long, narrow, false, false, ""}.text(), "ok ...\n! n[1-2]: problem 0 [environment]\n")
	all := diagnosis{c, findings, draw.Style{ASCII: true}, true, true, ""}.text()
	assert.Equal(t, 30, strings.Count(all, "\n- n[1-2]: hint "))
	assert.Equal(t, 30, strings.Count(all, "    read: evidence\n"))
}

// On a narrow terminal, -v wraps text but not commands. Without a terminal, a finding is one line.
func TestDiagnosisOnANarrowTerminal(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("many words ", 12))
	c := &doctor.Cluster{
		Asked: 1,
		Notes: []doctor.Finding{{Severity: doctor.Warning, Text: words, Evidence: words, Fix: "echo " + words}},
	}
	findings := doctor.Diagnose(c)
	text := diagnosis{c, findings, draw.Style{ASCII: true, Width: 60}, true, true, ""}.text()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "    try:") {
			assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 60, line)
		}
	}
	assert.Regexp(t, `(?m)^! many words .*\n  (words|many) .*\n(.*\n)*    read: many .*\n          (words|many) `, text)
	assert.Contains(t, text, "\n    try:  echo "+words+"\n")
	assert.Contains(t, diagnosis{c, findings, draw.Style{ASCII: true}, true, true, ""}.text(),
		"! "+words+" [environment]\n    read: "+words+"\n")
}

// Suggested commands reach the same hosts in the same way.
func TestVerboseCommand(t *testing.T) {
	assert.Equal(t, "gorun doctor -v --ssh-config 'my config' -H 'n[1-4]' ./trainer",
		verboseCommand([]string{"--ssh-config", "my config", "-H", "n[1-4]", "./trainer"}))
	assert.Equal(t, "gorun doctor -v", verboseCommand(nil))
	spec := job.Spec{Hosts: []hosts.Host{{Name: "n1"}, {Name: "n2", User: "ada", Port: 2222}, {Name: "fd00::3", Port: 22}}}
	spec.Reach = job.ReachSpec{SSHConfig: "my config", Agent: "/opt/gorun"}
	c := &doctor.Cluster{Asked: 3}
	c.Options, c.Spelled = reachWords(spec)
	c.Found = []doctor.Finding{
		{Check: doctor.Reach, Hosts: []string{"n1", "n2"}, Text: "a"},
		{Check: doctor.Reach, Hosts: []string{"fd00::3"}, Text: "b"},
	}
	var fixes []string
	for _, f := range doctor.Diagnose(c) {
		fixes = append(fixes, f.Fix)
	}
	assert.Equal(t, []string{
		"gorun hosts check -v --ssh-config 'my config' --agent /opt/gorun -H n1,ada@n2:2222:1",
		"gorun hosts check -v --ssh-config 'my config' --agent /opt/gorun -H '[fd00::3]:22:1'",
	}, fixes)
}

// For thirty findings on eight hosts, the worst come first, similar ones are merged, and the rest is counted.
func TestDiagnosisOfManyHosts(t *testing.T) {
	c := &doctor.Cluster{Asked: 9, Gorun: "v1", Program: "./trainer"}
	for i := range 8 {
		h := &doctor.Host{
			Name: fmt.Sprint("n", i+1), Gorun: "v1", UID: 1000,
			Limits: map[string]doctor.Limit{"nofile": {Soft: 100, Hard: 200}},
		}
		h.Clock = &doctor.Clock{Ahead: 2 + float64(i)/10}
		h.Shm = &doctor.FileSystem{Type: "tmpfs", Total: 1 << 20, Free: 1 << 20}
		h.Orphans = []doctor.Process{{PID: 100 + i, Name: "trainer"}}
		if i == 4 {
			h.Sysctls = map[string]string{"kernel/shmmax": "4096", "net/ipv4/ip_local_port_range": "1 2"}
			h.DiskSpace = []doctor.DiskSpace{{Path: "/tmp"}}
			h.Program = &doctor.Program{Error: "no such file"}
			h.Interfaces = []doctor.Interface{{Name: "eth0", Physical: true, Carrier: true, Duplex: "half"}}
		}
		c.Hosts = append(c.Hosts, h)
	}
	c.Found = []doctor.Finding{
		{Check: doctor.Reach, Severity: doctor.Error, Hosts: []string{"n9"}, Text: "no route to host"},
	}
	text := diagnosis{
		c, doctor.Diagnose(c),
		draw.Style{ASCII: true, Width: 40},
		false, false,
		"gorun doctor -v -H 'n[1-9]'",
	}.text()
	assert.Equal(t, `X n9: no route to host [reach]
    try:  gorun hosts check -v -H n9
X n5: no such file [program]
    try:  gorun --copy ./trainer ... # sends it to each host
! n1: its clock is 2.0 s ahead of this host's; similar on n[2-8] [clock]
    try:  timedatectl status; sudo timedatectl set-ntp true
! n5: almost no space is left in /tmp () [room]
    try:  df -h /tmp
! n[1-8]: only 100 open files are allowed [nofile]
    try:  echo '* - nofile 65536' | sudo tee /etc/security/limits.d/90-nofile.conf # then log in again; systemd `+
		`services need LimitNOFILE=
! n[1-8]: /dev/shm has only 1 MiB [shm]
    try:  sudo mount -o remount,size=50% /dev/shm
! n5: shared memory segments are limited to 4 KiB [shmmax]
    try:  sudo sysctl -w kernel.shmmax=18446744073692774399
and 3 more findings (ports, duplex, leftover-processes): gorun doctor -v -H 'n[1-9]'
`, text)
}

// gorun lists skipped checks, although they are no problems.
func TestDiagnosisTellsOfNoAnswer(t *testing.T) {
	c := &doctor.Cluster{Asked: 3, Gorun: "v1"}
	for _, name := range []string{"n1", "n2", "n3"} {
		c.Hosts = append(c.Hosts, &doctor.Host{Name: name, Unknown: []string{"libraries: no answer within 3s"}})
	}
	c.Hosts[1].Unknown = append(c.Hosts[1].Unknown, "CPUs and GPUs: no answer within 3s")
	text := diagnosis{c, doctor.Diagnose(c), draw.Style{ASCII: true}, false, false, "gorun doctor -v"}.text()
	assert.Contains(t, text,
		"not looked at: n[1-3]: libraries: no answer within 3s; n2: CPUs and GPUs: no answer within 3s\nnothing is wrong\n")
}
