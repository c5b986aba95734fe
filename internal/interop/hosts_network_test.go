package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
	"gorun/launcher/doctor"
)

// TestHostsNetwork runs jobs and `gorun hosts check` over hosts with a broken and an unusual network.
func TestHostsNetwork(t *testing.T) {
	f := raise(t, testhosts.Config{Hosts: 3})
	firewalled(t, f)
	oddNetwork(t, f)
}

// firewalled: a firewall lets only SSH through to a host. Both a job and `gorun hosts check` report it.
func firewalled(t *testing.T, f fleet) {
	err := f.Impair("h3", testhosts.Impairment{Ports: []int{22}})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		testneeds.Skip(t, testneeds.LayerHosts, err.Error())
	}
	require.NoError(t, err)
	got := f.gorun("-H", "h1,h2,h3", "true").run(t)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stderr,
		"all nodes reach h1, but h1 does not reach h3 at 10.77.1.3 (no answer; the reverse works), h2 does not reach h3")
	require.Contains(t, got.stderr, "`gorun hosts check` shows more")
	got = checking(f, "-q").run(t)
	require.Equal(t, 1, got.code, got.stderr)
	require.Regexp(t, `^(✗|X) h3: no other host reaches it at 10\.77\.1\.3 \(eth0\): no answer at port \d+, `+
		`though port 22 answers: a firewall lets only some ports pass; its own connections to others work \[unreachable\]
    open all TCP ports between the hosts in firewalls: ranks listen on random ports
    try:  sudo nft list ruleset \|\| sudo iptables-save
$`, got.stdout)
	require.NoError(t, f.Impair("h3", testhosts.Impairment{}))
	got = checking(f, "-q").run(t)
	require.Zero(t, got.code, got.stdout)
	require.Empty(t, got.stdout)
}

// checking is `gorun hosts check`.
func checking(f fleet, options ...string) job {
	j := gorun(append([]string{"hosts", "check", "--ssh-config", f.SSHConfig(), "-H", "h1,h2,h3"}, options...)...)
	j.hosts = f.Set
	return j
}

// oddNetwork: only IPv6 connects the hosts, and its interface has another name on each. The hosts also have
// docker0, a dead network, and IPv4 addresses that reach only the head.
func oddNetwork(t *testing.T, f fleet) {
	for i, host := range f.Hosts() {
		for _, add := range []testhosts.Interface{
			{Name: "docker0", Kind: "bridge", Addresses: []string{"172.17.0.1/16"}},
			{Name: fmt.Sprint("eno", i), Addresses: []string{fmt.Sprintf("10.6.0.%d/24", i+1)}},
			{Name: fmt.Sprint("fast", i), Bridge: "six", Addresses: []string{fmt.Sprintf("fd09::%d/64", i+1)}},
		} {
			require.NoError(t, f.AddInterface(host, add))
		}
		require.NoError(t, f.IP(host, "route add blackhole 10.77.1.0/24"))
	}
	for i, r := range f.gorun("-H", "h1,h2,h3", self(t)).tell(t) {
		name := fmt.Sprint("fast", i)
		require.Equal(t, name, r.Environ["GLOO_SOCKET_IFNAME"])
		require.Equal(t, "="+name, r.Environ["NCCL_SOCKET_IFNAME"])
		require.Equal(t, "fd09::1", r.Environ["MASTER_ADDR"])
	}
	got := checking(f).run(t)
	require.Zero(t, got.code, got.stdout)
	require.Contains(t, got.stdout, "MASTER_ADDR would be fd09::1 (fast0) of h1: the other 2 nodes reach it")
	require.Contains(t, got.stdout,
		"h[1-3]: no host is reachable in the network 10.6.0.0/24 (eno0 of h1; eno1 of h2; eno2 of h3); "+
			"it is not used [network-interface]\n")
	require.Contains(t, got.stdout, "nothing is wrong\n")
	var report struct{ Network doctor.Network }
	require.NoError(t, json.Unmarshal([]byte(checking(f, "--json").succeed(t)), &report))
	chosen := map[string]string{}
	for _, i := range report.Network.Interfaces {
		if i.Chosen {
			chosen[i.Host] = i.Name
		}
	}
	require.Equal(t, map[string]string{"h1": "fast0", "h2": "fast1", "h3": "fast2"}, chosen)
	for _, w := range report.Network.Paths {
		require.Equal(t, !w.Aside, w.BitsPerSecond > 0, "%+v", w)
	}
}
