package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm/bench"
	"gorun/internal/testhosts"
)

// perftestPrinted is what perftest's programs print at the end, and what comes before it where the server does not
// listen yet.
const perftestPrinted = `#!/bin/sh
echo "$(hostname) ${0##*/} $*" >> %[1]s/ran
case $2 in bad*) echo "Unable to open file descriptor"; echo "Failed to modify QP to RTR" >&2; exit 1 ;; esac
for last; do :; done
case $last in
10.*) if mkdir %[1]s/refused 2>/dev/null; then echo "Couldn't connect to $last:18515" >&2; exit 1; fi ;;
esac
case $0 in
*_lat) echo ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]'
	echo ' 2       1000          0.98           4.37         1.02     	       1.03' ;;
*) echo ' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]'
	echo ' 65536      20000            97.64              96.00  		   0.186217' ;;
esac
`

// rdmaPorts makes files that a kernel shows of RDMA devices with a port each, beside the interfaces that are there, in
// place of a host's /sys/class.
func rdmaPorts(t *testing.T, set *testhosts.Set, host string, devices ...string) {
	class := t.TempDir()
	for _, device := range devices {
		port := filepath.Join(class, "infiniband", device, "ports", "1")
		require.NoError(t, os.MkdirAll(port, 0o755))
		for name, text := range map[string]string{
			"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (2X HDR)",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(port, name), []byte(text+"\n"), 0o644))
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(class, "net"), 0o755))
	for _, name := range []string{"eth0", "rail1"} {
		require.NoError(t, os.Symlink("../../devices/virtual/net/"+name, filepath.Join(class, "net", name)))
	}
	require.NoError(t, set.Mount(host, "--bind", class, "/sys/class"))
}

// gorun bench p2p measures each pair of interfaces of two hosts, and RDMA writes by perftest, started on both.
func TestBenchMeasuresPathsBetweenHosts(t *testing.T) {
	if !bench.Linked {
		return // the other build has no collectives
	}
	set := testhosts.Up(t, testhosts.Config{Hosts: 2})
	dir := t.TempDir()
	for _, program := range []string{"ib_write_bw", "ib_write_lat"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), fmt.Appendf(nil, perftestPrinted, dir), 0o755))
	}
	for i, host := range set.Hosts() {
		rail := testhosts.Interface{Name: "rail1", Addresses: []string{fmt.Sprintf("10.99.0.%d/24", i+1)}, Bridge: "rail1"}
		require.NoError(t, set.AddInterface(host, rail))
		rdmaPorts(t, set, host, "bad_0", fmt.Sprint("mlx5_", i))
	}
	cmd := onHead(set, ownGorun(t), set.SSHConfig(), "bench", "p2p", "-H", "h1,h2", "-b", "8", "-e", "64K", "-f", "8192",
		"--trials", "3", "--time-per-size", "10ms", "--json", "-x", "PATH")
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	var report bench.Report
	require.NoError(t, json.Unmarshal(out, &report), "%s", out)
	require.Equal(t, 2, report.Ranks, "one on each host")
	var names []string
	for _, p := range report.Paths {
		names = append(names, fmt.Sprintf("%s > %s by %s", p.From, p.To, p.By))
		if p.From == "h1 bad_0" {
			require.Equal(t, "ib_write_lat: exit status 1: Failed to modify QP to RTR", p.Error)
			continue
		}
		require.Empty(t, p.Error, "%+v", p)
		require.Positive(t, p.Latency, "%+v", p)
		require.Positive(t, p.Forth, "%+v", p)
		require.Positive(t, p.Back, "%+v", p)
	}
	require.Equal(t, []string{
		"h1 > h2 by comm", fmt.Sprintf("h1 eth0 %s > h2 eth0 %s by tcp", set.Address("h1"), set.Address("h2")),
		"h1 rail1 10.99.0.1 > h2 rail1 10.99.0.2 by tcp", "h1 bad_0 > h2 bad_0 by ib_write_bw",
		"h1 mlx5_0 > h2 mlx5_1 by ib_write_bw",
	}, names)
	tcp, rdma := report.Paths[2], report.Paths[4]
	require.Positive(t, tcp.ForthMany)
	require.Positive(t, tcp.BackMany)
	require.Equal(t, 4, tcp.Streams)
	require.Equal(t, []float64{12.5, 1.02, 12, 12}, []float64{rdma.Link, rdma.Latency, rdma.Forth, rdma.Back})
	ran, err := os.ReadFile(filepath.Join(dir, "ran"))
	require.NoError(t, err)
	for _, line := range []string{
		`h2 ib_write_lat -d mlx5_1 -i 1 -p \d+ -F -s 2 -n 1000`,
		`h1 ib_write_lat -d mlx5_0 -i 1 -p \d+ -F -s 2 -n 1000 ` + set.Address("h2"),
		`h1 ib_write_bw -d mlx5_0 -i 1 -p \d+ -F -s 65536 -n 20000 --report_gbits ` + set.Address("h2"),
		`h2 ib_write_bw -d mlx5_1 -i 1 -p \d+ -F -s 65536 -n 20000 --report_gbits ` + set.Address("h1"),
	} {
		require.Regexp(t, `(?m)^`+line+`$`, string(ran))
	}
}
