package launcher

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
)

// onHostVariable selects the role of the test binary on a test host.
const onHostVariable = "LAUNCHER_TEST_ON_HOST"

func init() {
	switch os.Getenv(onHostVariable) {
	case "":
		return
	case "agent":
		_ = agent.Serve(wire.NewLink(standardStreams{}), agent.Config{})
	case "peer":
		bePeer(os.Args[1], os.Args[2])
	}
	os.Exit(0) // never run the tests again
}

// standardStreams is an agent's link to its launcher.
type standardStreams struct{}

func (standardStreams) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (standardStreams) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (standardStreams) Close() error                { return os.Stdin.Close() }

// bePeer uses an address as a rank's Gloo does: it listens there, prints its port, reads the addresses of its peers
// and connects to each.
func bePeer(name, addr string) {
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, name)
			_ = conn.Close()
		}
	}()
	fmt.Println(ln.Addr())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(greet(strings.Fields(in.Text())))
	}
}

// greet connects to all peers in a list of name, address, name, address and so on.
func greet(others []string) string {
	for i := 0; i+1 < len(others); i += 2 {
		conn, err := net.DialTimeout("tcp", others[i+1], 10*time.Second)
		if err != nil {
			return err.Error()
		}
		said, _ := io.ReadAll(conn)
		_ = conn.Close()
		if strings.TrimSpace(string(said)) != others[i] {
			return fmt.Sprintf("%q answers at %s, not %s", said, others[i+1], others[i])
		}
	}
	return "ok"
}

// distant is a process of this test on another host.
type distant struct {
	in    io.WriteCloser
	lines *bufio.Reader
}

func (r distant) Read(p []byte) (int, error)  { return r.lines.Read(p) }
func (r distant) Write(p []byte) (int, error) { return r.in.Write(p) }
func (r distant) Close() error                { return r.in.Close() }

func (r distant) line(t *testing.T) string {
	text, err := r.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(text)
}

// onHost starts the test binary on a host. It ends with its input, at the latest when the test does.
func onHost(t *testing.T, set *testhosts.Set, host, role string, args ...string) distant {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := set.Command(host, append([]string{self}, args...)...)
	cmd.Env = append(os.Environ(), onHostVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return startRemote(t, cmd)
}

// agentsOn starts an agent on each host. They end with the test.
func agentsOn(t *testing.T, set *testhosts.Set) (agents []prober) {
	for _, h := range set.Hosts() {
		agents = append(agents, linkProber(h, wire.NewLink(onHost(t, set, h, "agent"))))
	}
	return agents
}

func startRemote(t *testing.T, cmd *exec.Cmd) distant {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return distant{in, bufio.NewReader(out)}
}

// topology is a random network in which one network joins all hosts of a set. Its field notices describes it.
type topology struct {
	t       *testing.T
	set     *testhosts.Set
	hosts   []string
	r       *rand.Rand
	mains   []string // name of eth0 on each host
	notices []string
}

func (n *topology) add(host string, i testhosts.Interface) {
	n.notices = append(n.notices, fmt.Sprintf("%s: %+v", host, i))
	require.NoError(n.t, n.set.AddInterface(host, i))
}

func (n *topology) ip(host string, lines ...string) {
	n.notices = append(n.notices, host+": ip "+strings.Join(lines, "; "))
	require.NoError(n.t, n.set.IP(host, lines...))
}

func (n *topology) often() bool { return n.r.IntN(2) == 0 }

// name returns an interface name with a random number.
func (n *topology) name(stem string) string { return fmt.Sprintf("%s%d", stem, n.r.IntN(90)+10) }

// draw builds the network.
func (n *topology) draw() {
	n.rename()
	switch n.r.IntN(4) {
	case 0: // the former eth0 joins all hosts
	case 1:
		n.everywhere("enp", "wire", "10.9.0.%d/24")
		n.breakMain()
	case 2:
		n.everywhere("ens", "six", "fd09::%d/64")
		n.breakMain()
	case 3:
		for i, h := range n.hosts {
			n.notices = append(n.notices, h+": "+n.mains[i]+" has IPv6 alone")
			require.NoError(n.t, n.set.RemoveAddress(h, n.mains[i], n.set.Address(h)+"/16"))
			require.NoError(n.t, n.set.AddAddress(h, n.mains[i], fmt.Sprintf("fd77::%d/64", i+1)))
		}
	}
	n.decoys()
}

// rename renames eth0 on some hosts.
func (n *topology) rename() {
	for _, h := range n.hosts {
		name := "eth0"
		if n.often() {
			name = n.name("net")
			n.ip(h, "link set eth0 down", "link set eth0 name "+name, "link set "+name+" up")
		}
		n.mains = append(n.mains, name)
	}
}

// everywhere adds an interface of one network to all hosts.
func (n *topology) everywhere(stem, bridge, format string) {
	for i, h := range n.hosts {
		n.add(h, testhosts.Interface{Name: n.name(stem), Bridge: bridge, Addresses: []string{fmt.Sprintf(format, i+1)}})
	}
}

// breakMain removes one host from eth0's network.
func (n *topology) breakMain() {
	victim := n.hosts[n.r.IntN(len(n.hosts))]
	n.notices = append(n.notices, "what "+victim+" sends by eth0 vanishes")
	require.NoError(n.t, n.set.Blackhole(victim))
}

// decoys adds interfaces that do not connect all hosts.
func (n *topology) decoys() {
	docker, bridge, vpn, dead, split := n.often(), n.often(), n.often(), n.often(), n.often()
	partly := n.r.IntN(len(n.hosts)) // number of hosts in a network of their own
	for i, h := range n.hosts {
		if docker {
			n.add(h, testhosts.Interface{Name: "docker0", Kind: "bridge", Addresses: []string{"172.17.0.1/16"}})
		}
		if bridge {
			n.add(h, testhosts.Interface{Name: n.name("lan"), Kind: "bridge", Addresses: []string{"192.168.122.1/24"}})
		}
		if vpn {
			n.add(h, testhosts.Interface{Name: n.name("tun"), Addresses: []string{fmt.Sprintf("10.8.0.%d/24", i+1)}})
		}
		if dead {
			n.add(h, testhosts.Interface{
				Name: n.name("eno"), Addresses: []string{fmt.Sprintf("10.6.0.%d/24", i+1)},
				NoCarrier: n.often(), Down: n.often(),
			})
		}
		if split { // the same subnet, but nothing connects the hosts
			n.add(h, testhosts.Interface{
				Name: n.name("ib"), Bridge: fmt.Sprint("split", i),
				Addresses: []string{fmt.Sprintf("10.4.0.%d/24", i+1)},
			})
		}
		if i < partly {
			n.add(h, testhosts.Interface{
				Name: n.name("fast"), Bridge: "part",
				Addresses: []string{fmt.Sprintf("10.5.0.%d/24", i+1), fmt.Sprintf("fd05::%d/64", i+1)},
			})
		}
	}
	if n.often() {
		n.ip(n.hosts[len(n.hosts)-1], "route add blackhole 10.5.0.1/32", "route add blackhole 172.17.0.0/24")
	}
}

// requireConnected requires that every host connects to the chosen address of every other host.
func requireConnected(t *testing.T, set *testhosts.Set, hosts []string, places []probe.Endpoint) {
	peers, targets := make([]distant, len(hosts)), make([]string, len(hosts))
	for i, h := range hosts {
		peers[i] = onHost(t, set, h, "peer", h, places[i].Addr.String())
		at := peers[i].line(t)
		_, err := netip.ParseAddrPort(at)
		require.NoError(t, err, "%s cannot listen at %s", h, places[i].Addr)
		targets[i] = h + " " + at
	}
	for i, p := range peers {
		_, err := fmt.Fprintln(p, strings.Join(targets, " "))
		require.NoError(t, err)
		require.Equal(t, "ok", p.line(t), "%s, placed at %s", hosts[i], places[i].Addr)
	}
}

// TestRandomTopologies builds networks with docker0, dead VPNs, partial networks and names that differ between hosts.
// The chosen address and interfaces must carry real connections among all hosts.
func TestRandomTopologies(t *testing.T) {
	testneeds.Hosts(t)
	r := testneeds.Rand(t)
	for i := range testneeds.Count(5, 100) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			set := testhosts.Up(t, testhosts.Config{Hosts: 2 + r.IntN(3)})
			n := &topology{t: t, set: set, hosts: set.Hosts(), r: r}
			n.draw()
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(n.notices, "\n"))
				}
			}()
			choice, _, err := chooseAddress(agentsOn(t, set), 0, probe.Options{})
			require.NoError(t, err)
			require.Empty(t, choice.Warning)
			t.Log(choice.Reason)
			requireConnected(t, set, n.hosts, choice.Endpoints)
			for i, p := range choice.Endpoints {
				out, err := set.Command(n.hosts[i], "ip", "-o", "addr", "show", "dev", p.Interface).Output()
				require.NoError(t, err, p.Interface)
				require.Contains(t, string(out), " "+p.Addr.String()+"/")
			}
		})
	}
}

// An error names an unreachable host and the addresses that were tried.
func TestIsolatedHost(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 3})
	require.NoError(t, set.Blackhole("h3"))
	for _, h := range set.Hosts() {
		require.NoError(t,
			set.AddInterface(h, testhosts.Interface{Name: "docker0", Kind: "bridge", Addresses: []string{"172.17.0.1/16"}}))
	}
	agents := agentsOn(t, set)
	_, _, err := chooseAddress(agents, 0, probe.Options{})
	var unreached *probe.UnreachedError
	require.ErrorAs(t, err, &unreached)
	require.ErrorContains(t, err, "10.77.1.1 (eth0)             reached from h2; ")
	require.ErrorContains(t, err, "172.17.0.1 (docker0)         refused from h[2-3]")
	require.ErrorContains(t, err, "h3 cannot reach any of them")

	survey, _, err := surveyNetwork(agents)
	require.ErrorAs(t, err, &unreached)
	require.Contains(t, survey.Summary(), "2 of 6 paths between 3 hosts work")
	require.Contains(t, strings.Join(notices(survey), "\n"),
		"unreachable: h3: no other host reaches it at 10.77.1.3 (eth0), and it reaches no other host: ")
	require.NoError(t, set.Heal("h3"))
	survey, choice, err := surveyNetwork(agents)
	require.NoError(t, err)
	require.Equal(t, set.Address("h1"), choice.Addr.String())
	require.Contains(t, survey.Summary(), "6 of 6 paths")
}
