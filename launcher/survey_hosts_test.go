package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
	"gorun/launcher/doctor"
	"gorun/launcher/internal/probe"
)

// notices returns the findings of a survey as lines such as "loss: h3: packets …".
func notices(s probe.Survey) (lines []string) {
	for _, f := range s.Findings() {
		line := fmt.Sprintf("%s: %s: %s", f.Check, f.Where(), f.Text)
		if f.Severity == doctor.Note {
			line = "note: " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// TestImpairedNetwork impairs the network of three hosts in one way at a time. The survey reports that impairment and
// nothing else.
func TestImpairedNetwork(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 3})
	for name, row := range map[string]struct {
		how  testhosts.Impairment
		want string // a pattern of the first finding
	}{
		"nothing": {want: "^$"},
		"packets are lost": {
			testhosts.Impairment{Loss: 0.1, Seed: testneeds.Rand(t).Uint64()},
			`^packet-loss: h3: packets get lost between h3 \(eth0, 10\.77\.1\.3\) and h\[1-2\]: TCP resent \d+ of \d+ ` +
				`segments \(\d+ %\) `,
		},
		"large packets vanish": {
			testhosts.Impairment{MaxPacket: 1400},
			`^path-mtu: h3: packets of 1420 bytes vanish between h3 \(eth0, 10\.77\.1\.3\) and h\[1-2\], packets of ` +
				"1400 bytes arrive",
		},
		"a firewall rejects": {
			testhosts.Impairment{Ports: []int{22}, Reject: true},
			`^unreachable: h3: no other host reaches it at 10\.77\.1\.3 \(eth0\): refused at port \d+, though gorun ` +
				`listens there: a firewall rejects it, or another host has the address; its own connections to others work$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			impair(t, set, "h3", row.how)
			defer impair(t, set, "h3", testhosts.Impairment{})
			only := regexp.MustCompile(row.want + `[^\n]*$`)
			// a survey looks at each path for part of a second: it may miss losses, and a busy machine loses packets, too
			for try := 0; ; try++ {
				survey, choice, err := surveyNetwork(agentsOn(t, set))
				require.NoError(t, err)
				require.Equal(t, set.Address("h1"), choice.Addr.String())
				lines := strings.Join(notices(survey), "\n")
				if try < 4 && !only.MatchString(lines) {
					t.Logf("once more: %q", lines)
					continue
				}
				require.Regexp(t, only, lines, "%+v", survey.Paths)
				if name == "nothing" {
					requireMeasured(t, survey)
				}
				return
			}
		})
	}
}

// impair skips the test if the kernel has no TAP devices.
func impair(t *testing.T, set *testhosts.Set, host string, how testhosts.Impairment) {
	err := set.Impair(host, how)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		testneeds.Skip(t, testneeds.LayerHosts, err.Error())
	}
	require.NoError(t, err)
}

// requireMeasured requires a measurement of each path in both directions.
func requireMeasured(t *testing.T, survey probe.Survey) {
	n := len(survey.Nodes)
	require.Len(t, survey.Paths, n*(n-1))
	for _, w := range survey.Paths {
		require.NotNil(t, w.Measured)
		require.Empty(t, w.Measured.Problem)
		require.Positive(t, w.Measured.RTT)
		require.Positive(t, w.Rate())
		require.Positive(t, w.Measured.Segments)
		require.Equal(t, 1500, w.Measured.Packet)
	}
	require.Contains(t, survey.Transfers(), "the slowest path is from h")
}

// TestOddInterfaces adds interfaces to three hosts that do not join them. The probe chooses the right network and
// names the useless interfaces.
func TestOddInterfaces(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 3})
	for i, h := range set.Hosts() {
		add := func(in testhosts.Interface) { require.NoError(t, set.AddInterface(h, in)) }
		add(testhosts.Interface{Name: "docker0", Kind: "bridge", Addresses: []string{"172.17.0.1/16"}})
		add(testhosts.Interface{
			Name: fmt.Sprintf("eno%d", i+5), Addresses: []string{fmt.Sprintf("10.6.0.%d/24", i+1)},
			NoCarrier: i == 0,
		})
		add(testhosts.Interface{
			Name: fmt.Sprintf("fast%d", i), Bridge: "six",
			Addresses: []string{fmt.Sprintf("fd09::%d/64", i+1)},
		})
		if i == 2 {
			require.NoError(t, set.AddAddress(h, "fast2", "10.5.0.3/24"))
		}
		// IPv4 works and leads to the launcher, but does not connect the hosts.
		require.NoError(t, set.IP(h, "route add blackhole 10.77.1.0/24"))
	}
	survey, choice, err := surveyNetwork(agentsOn(t, set))
	require.NoError(t, err)
	require.Empty(t, choice.Warning)
	require.Equal(t, "fd09::1", choice.Addr.String())
	for i, p := range choice.Endpoints {
		require.Equal(t, fmt.Sprintf("fast%d", i), p.Interface)
		require.ElementsMatch(t, []string{"eth0", "docker0", fmt.Sprintf("eno%d", i+5)}, p.Others)
		require.Equal(t, i == 2, p.OtherFamily)
	}
	require.Contains(t, choice.Note, "the interfaces of h3 also have IPv4 addresses")
	lines := "\n" + strings.Join(notices(survey), "\n")
	require.Contains(t, lines, "note: network-interface: h[1-3]: no host is reachable in the network 10.6.0.0/24 (eno5 "+
		"of h1, no "+
		"carrier; eno6 of h2; eno7 of h3); it is not used")
	require.Contains(t, lines, "note: network-interface: h[1-3]: no host is reachable in the network 10.77.0.0/16 (eth0 "+
		"of h1; eth0 of h2; eth0 of h3); it is not used")
	require.Contains(t, lines, "\nnetwork-interface: h3: the hosts connect by IPv6 (fd09::3), and no host reaches "+
		"the IPv4 address 10.5.0.3 (fast2) of the same interface")
	require.NotContains(t, lines, "docker0")
	require.NotContains(t, lines, "\nunreachable")
}
