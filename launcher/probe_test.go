package launcher

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/wire"
)

// linkProber queries the agent at the other end of a link.
func linkProber(name string, link *wire.Link) prober {
	return prober{name: name, request: func(question *wire.Probe) (r wire.Reached, err error) {
		if err := link.Send(question); err != nil {
			return r, err
		}
		f, err := link.Read()
		if err != nil {
			return r, err
		}
		if f.Type != wire.TypeReached {
			return r, fmt.Errorf("a %s frame came for Reached", f.Type)
		}
		return r, f.Decode(&r)
	}}
}

// agentsHere starts agents of node0 to node n-1 in this process.
func agentsHere(t testing.TB, n int) (all []prober, links []*wire.Link) {
	var running sync.WaitGroup
	for i := range n {
		head, node := reach.Local()
		running.Go(func() { _ = agent.Serve(node, agent.Config{}) })
		all, links = append(all, linkProber("node"+strconv.Itoa(i), head)), append(links, head)
	}
	t.Cleanup(func() {
		for _, link := range links {
			_ = link.Close()
		}
		running.Wait()
	})
	return all, links
}

// Several agents on this host have the same addresses. They still identify each other correctly.
func TestChooseAddress(t *testing.T) {
	agents, _ := agentsHere(t, 4)
	choice, notes, err := chooseAddress(agents, 0, probe.Options{})
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Empty(t, choice.Warning)
	require.Len(t, choice.Endpoints, 4)
	for _, p := range choice.Endpoints {
		require.Equal(t, choice.Endpoints[0].Interface, p.Interface)
		require.NotEmpty(t, p.Interface)
	}
	ln, err := net.Listen("tcp", netip.AddrPortFrom(choice.Addr, 0).String())
	require.NoError(t, err)
	require.NoError(t, ln.Close())
}

func TestChooseNamedAddress(t *testing.T) {
	choose := func(name string) (probe.Choice, error) {
		agents, _ := agentsHere(t, 2)
		agents[0].address = name
		choice, _, err := chooseAddress(agents, 0, probe.Options{Source: "--master-addr " + name})
		return choice, err
	}
	for name, addr := range map[string]string{
		"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "127.0.0.9": "127.0.0.9",
	} {
		choice, err := choose(name)
		require.NoError(t, err)
		require.Equal(t, addr, choice.Addr.String())
		require.Equal(t, "lo", choice.Endpoints[0].Interface)
		require.Contains(t, choice.Reason, "named by --master-addr "+name)
	}
	_, err := choose("192.0.2.77")
	require.ErrorContains(t, err, "node0: 192.0.2.77 is not an address of the host")
}

// A survey that fails in the middle is reported as far as it came.
func TestReportOfAFailedSurvey(t *testing.T) {
	agents, _ := agentsHere(t, 2)
	agents[1].address = "192.0.2.77"
	c := hostsCheck{}
	survey, choice, err := surveyNetwork(agents)
	c.recordNetwork(survey, choice, err)
	require.NotEmpty(t, c.cluster.Network.Interfaces)
	require.Len(t, c.cluster.Found, 1)
	require.Contains(t, c.cluster.Found[0].Text, "cannot tell which hosts reach each other: node1: 192.0.2.77 is not")
}

// Node 0 answers probes at the master port, which a firewall may permit, and leaves it free for the store. If the
// port is in use, node 0 answers at another one.
func TestProbesAtTheMasterPort(t *testing.T) {
	free, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	listen := func() int {
		agents, _ := agentsHere(t, 2)
		s := newProbeSession(agents, probe.Options{})
		require.NoError(t, s.listen(port))
		_, err := s.try(probe.Order(s.nodes, s.options), 9, probe.Limits{})
		require.NoError(t, err)
		return s.nodes[0].Port
	}
	require.NotEqual(t, port, listen())
	require.NoError(t, free.Close())
	require.Equal(t, port, listen())
}

// The store can listen at once at the port where node 0 answered probes.
func TestOpenAfterProbing(t *testing.T) {
	agents, links := agentsHere(t, 2)
	s := newProbeSession(agents, probe.Options{})
	require.NoError(t, s.listen(0))
	choice, err := s.try(probe.Order(s.nodes, s.options), 9, probe.Limits{})
	require.NoError(t, err)
	link := links[0]
	require.NoError(t, link.Send(&wire.Open{Addr: choice.Addr.WithZone("").String(), Port: s.nodes[0].Port}))
	f, err := link.Read()
	require.NoError(t, err)
	var opened wire.Opened
	require.NoError(t, f.Decode(&opened))
	require.Empty(t, opened.Error)
	require.Equal(t, s.nodes[0].Port, opened.Port)
}

// An agent whose launcher exits during a probe stops at once, even if a probed address never answers.
func TestHeadClosesWhileNodesDial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	head, node := reach.Local()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = agent.Serve(node, agent.Config{})
	}()
	key := make([]byte, probe.MinKey)
	target := probe.Target{Addr: netip.MustParseAddr("127.0.0.1"), Port: silent.Addr().(*net.TCPAddr).Port}
	require.NoError(t,
		head.Send(&wire.Probe{Key: key, Listen: true, Targets: []probe.Target{target}, Timeout: time.Hour}))
	require.NoError(t, head.Send(&wire.Probe{Key: key, Targets: []probe.Target{target}})) // waits for the first
	conn, err := silent.Accept()                                                          // the agent is dialing
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, head.Close())
	<-over
}

// Answers are in the order of the questions, regardless of their duration.
func TestAnswersStayInOrder(t *testing.T) {
	_, links := agentsHere(t, 1)
	head := links[0]
	key := make([]byte, probe.MinKey)
	for i := range 8 {
		require.NoError(t, head.Send(&wire.Probe{Key: key, Listen: i%2 == 0, Node: i, Targets: make([]probe.Target, i)}))
	}
	for i := range 8 {
		f, err := head.Read()
		require.NoError(t, err)
		var r wire.Reached
		require.NoError(t, f.Decode(&r))
		require.Len(t, r.Answers, i)
		require.Equal(t, i%2 == 0, r.Port > 0)
	}
}

// reachable returns a node with addresses, some of which other nodes can reach.
func reachable(addrs []string, reach func(addr netip.Addr) bool, asked func(p *wire.Probe)) prober {
	return prober{request: func(p *wire.Probe) (r wire.Reached, err error) {
		asked(p)
		if p.Listen {
			r.Port = 1
			for _, a := range addrs {
				r.Candidates = append(r.Candidates, probe.Candidate{
					Addr: netip.MustParseAddr(a), Bits: 24,
					Interface: "eth" + a[3:4], Kind: probe.Ordinary,
				})
			}
		}
		for i, target := range p.Targets {
			a := probe.Result{Target: i, Problem: "no answer"}
			if reach(target.Addr) {
				a = probe.Result{Target: i, RTT: 1, Local: netip.MustParseAddr(addrs[0]), Interface: "eth" + addrs[0][3:4]}
			}
			r.Answers = append(r.Answers, a)
		}
		return r, nil
	}}
}

// named names the nodes node0, node1 and so on.
func named(probers ...prober) []prober {
	for i := range probers {
		probers[i].name = "node" + strconv.Itoa(i)
	}
	return probers
}

// The most plausible address is probed first. The others are probed only if that fails.
func TestOneOfManyAddresses(t *testing.T) {
	zero := []string{"10.0.0.1", "10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"}
	var mu sync.Mutex
	dials := 0
	count := func(p *wire.Probe) {
		mu.Lock()
		defer mu.Unlock()
		dials += len(p.Targets)
	}
	nodes := func(works string) (all []prober) {
		dials = 0
		reach := func(addr netip.Addr) bool { return addr.String() == works || addr.String()[:7] == "10.9.0." }
		all = append(all, reachable(zero, reach, count))
		for i := range 9 {
			all = append(all, reachable([]string{fmt.Sprintf("10.9.0.%d", i+1)}, reach, count))
		}
		return all
	}
	choice, _, err := chooseAddress(named(nodes("10.1.0.1")...), 0, probe.Options{})
	require.NoError(t, err)
	require.Equal(t, "10.1.0.1", choice.Addr.String())
	const peers = 2 * 9 // nodes 1 and 5 after each node, without node 0, which all nodes have dialed
	require.Equal(t, 9*3+peers, dials)
	require.Equal(t, probe.Endpoint{Addr: netip.MustParseAddr("10.9.0.4"), Interface: "eth9", Kind: probe.Ordinary},
		choice.Endpoints[4])

	choice, _, err = chooseAddress(named(nodes("10.4.0.1")...), 0, probe.Options{})
	require.NoError(t, err)
	require.Equal(t, "10.4.0.1", choice.Addr.String())
	require.Equal(t, 9*3+9*5+peers, dials)

	_, _, err = chooseAddress(named(nodes("nothing")...), 0, probe.Options{})
	var unreached *probe.UnreachedError
	require.ErrorAs(t, err, &unreached)
}

func TestProbeErrorsNameTheNode(t *testing.T) {
	fine := reachable([]string{"10.0.0.1"}, func(netip.Addr) bool { return true }, func(*wire.Probe) {})
	says := func(r wire.Reached, err error) prober {
		return prober{request: func(*wire.Probe) (wire.Reached, error) { return r, err }}
	}
	_, _, err := chooseAddress(named(fine, says(wire.Reached{}, errors.New("the agent was lost"))), 0, probe.Options{})
	require.EqualError(t, err, "node1: the agent was lost")
	_, _, err = chooseAddress(named(says(wire.Reached{Error: "no sockets\x1b[31m"}, nil), fine), 0, probe.Options{})
	require.EqualError(t, err, "node0: no sockets^[[31m")
	// An invalid answer counts as a node that reached nothing.
	nonsense := wire.Reached{Port: -1, Answers: []probe.Result{{Target: 99, RTT: 1}, {Target: -1, RTT: 1}}}
	_, _, err = chooseAddress(named(fine, says(nonsense, nil)), 0, probe.Options{})
	require.ErrorContains(t, err,
		"no address of node0 is reachable from all nodes:\n  10.0.0.1 (eth0)              not tried from node1")
}

// BenchmarkChooseAddress measures the whole probe, with all agents in this process.
func BenchmarkChooseAddress(b *testing.B) {
	for _, n := range []int{2, 64, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			agents, _ := agentsHere(b, n)
			for b.Loop() {
				_, _, err := chooseAddress(agents, 0, probe.Options{})
				require.NoError(b, err)
			}
		})
	}
}
