package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/env/nccl"
	"gorun/launcher/doctor"
)

// Problems of the environment apply to all hosts, and problems of files to their own hosts. gorun reports equal
// problems once.
func TestEnvironmentOfHosts(t *testing.T) {
	c := &doctor.Cluster{Asked: 3}
	for _, name := range []string{"n1", "n2", "n3"} {
		c.Hosts = append(c.Hosts, &doctor.Host{Name: name})
	}
	for _, h := range c.Hosts[1:] {
		h.SettingsFiles = []nccl.ConfFile{{Path: "/etc/nccl.conf", Text: "NCCL_IB_TIMOUT=22\nNCCL_DEBUG=WARN\n"}}
	}
	c.Hosts[2].SettingsFiles[0].Text += "NCCL_ALGO=Tree\n"
	c.Hosts[1].Environ = []string{"HOME=/home/ada", "NCCL_IB_HCA=mlx5_9", "NCCL_DEBUG=VERSION", "NCCL_PASSWORD=secret"}
	lintHosts(c, []string{"NCCL_ALGO=Ring", "NCCL_DEBUG=VERSION"})
	var lines []string
	for _, f := range doctor.Diagnose(c) {
		lines = append(lines, fmt.Sprintf("%s %s (%s): %.40s | %s", f.Severity, f.Where(), f.Evidence, f.Text, f.Fix))
	}
	assert.Equal(t, []string{
		"warning n[2-3] (/etc/nccl.conf:1): NCCL_IB_TIMOUT=22: neither NCCL nor RCCL | grep -n -e NCCL_IB_TIMOUT " +
			"/etc/nccl.conf",
		"warning n[1-3] (environment): NCCL_ALGO=Ring: forcing algorithms break | gorun explain NCCL_ALGO",
		"note n2 (the environment of its agent): its own environment has NCCL_IB_HCA=mlx5 | grep -nEs '(NCCL|RCCL)_' " +
			"/etc/environment /etc/profile.d/* ~/.bashrc ~/.profile ~/.ssh/environment",
	}, lines)
	for _, f := range doctor.Diagnose(c) {
		assert.NotContains(t, f.Text, "secret")
	}
}
