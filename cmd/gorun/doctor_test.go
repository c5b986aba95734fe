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

// What is wrong with one of several hosts is found there, over SSH: a file system that is
// too small, another program, another MTU, a host that is not there.
func TestDoctorOverSSH(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 4})
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
	var report struct{ Findings []doctor.Finding }
	require.NoError(t, json.Unmarshal(out, &report), "%s", out)
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.Check+" "+f.Where()] = f.Text
	}
	assert.Contains(t, found["reach h4"], "refused: nothing listens there")
	assert.Equal(t, program+" is another file than on 2 others", found["program-differs h2"])
	assert.Equal(t, "/dev/shm has 1 MiB only", found["shm h3"])
	assert.Equal(t, "eth0 has an MTU of 1280, on 2 others 1500", found["mtu h1"])
	assert.NotContains(t, found, "clock h1")

	cmd = onHead(set, gorun, set.SSHConfig(), "doctor", "-H", "h1,h2,h3,h4", program)
	out, err = cmd.Output()
	assert.Equal(t, exitFindings, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
	assert.LessOrEqual(t, strings.Count(string(out), "\n"), 20)
	for _, line := range []string{"✓ clock < ", "✗ h4: connect: ", "✗ h2: " + program + " is another file than on 2 others [program-differs]", "⚠ h3: /dev/shm has 1 MiB only [shm]"} {
		assert.Contains(t, string(out), line)
	}
}

// However much is found, a terminal gets twenty lines of it, unless all is wished.
func TestDiagnosisIsShort(t *testing.T) {
	c := &doctor.Cluster{Asked: 2, Gorun: "v1"}
	for _, name := range []string{"n1", "n2"} {
		c.Hosts = append(c.Hosts, &doctor.Host{Name: name, Limits: map[string]doctor.Limit{}})
	}
	for i := range 30 {
		c.Remarks = append(c.Remarks, doctor.Remark{Severity: doctor.Warning, Text: fmt.Sprint("problem ", i), Evidence: "evidence", Fix: "repair it"})
		c.Remarks = append(c.Remarks, doctor.Remark{Severity: doctor.Note, Text: fmt.Sprint("remark\n", i)})
	}
	findings := doctor.Judge(c)
	text := diagnosis{c, findings, draw.Style{ASCII: true}, false, "gorun doctor -v -H n[1-2]"}.text()
	assert.LessOrEqual(t, strings.Count(text, "\n"), 20)
	assert.Contains(t, text, "ok 2 of 2 hosts reached, same gorun  ok limits")
	assert.Contains(t, text, "! n[1-2]: problem 0 [environment]\n    try:  repair it\n")
	assert.Contains(t, text, "and 23 more findings: gorun doctor -v -H n[1-2]\n30 notes: gorun doctor -v -H n[1-2]\n")
	assert.NotContains(t, text, "nothing is wrong")
	all := diagnosis{c, findings, draw.Style{ASCII: true}, true, ""}.text()
	assert.Equal(t, 30, strings.Count(all, "\n- n[1-2]: remark "))
	assert.Equal(t, 30, strings.Count(all, "    read: evidence\n"))
}

// What is printed to be run again reaches the same hosts in the same way.
func TestDoctorAgain(t *testing.T) {
	assert.Equal(t, "gorun doctor -v --ssh-config 'my config' -H 'n[1-4]' ./trainer", again([]string{"doctor", "--ssh-config", "my config", "-H", "n[1-4]", "./trainer"}))
	assert.Equal(t, "gorun doctor -v", again([]string{"doctor"}))
	spec := job.Spec{Hosts: []hosts.Host{{Name: "n1"}, {Name: "n2", User: "ada", Port: 2222}, {Name: "fd00::3", Port: 22}}}
	spec.Reach = job.ReachWish{SSHConfig: "my config", Agent: "/opt/gorun"}
	c := &doctor.Cluster{Asked: 3}
	c.Options, c.Spelled = reachWords(spec)
	c.Unreached = []doctor.Unreached{{Hosts: []string{"n1", "n2"}, Text: "a"}, {Hosts: []string{"fd00::3"}, Text: "b"}}
	var fixes []string
	for _, f := range doctor.Judge(c) {
		fixes = append(fixes, f.Fix)
	}
	assert.Equal(t, []string{
		"gorun hosts check -v --ssh-config 'my config' --agent /opt/gorun -H n1,ada@n2:2222:1",
		"gorun hosts check -v --ssh-config 'my config' --agent /opt/gorun -H '[fd00::3]:22:1'",
	}, fixes)
}
