package bench

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/comm/internal/nccl/fake"
	"gorun/placement"
	"gorun/rendezvous/tcpstore"
)

func at(name, prefix string) address {
	return address{Interface: name, Prefix: netip.MustParsePrefix(prefix)}
}

func named(paths []Path) (names []string) {
	for _, p := range paths {
		names = append(names, p.From+" > "+p.To+" by "+p.By)
	}
	return names
}

// Interfaces with addresses in one network are paired, IPv4 first, and other hardware interfaces in order.
// Addresses that both hosts have are skipped.
func TestInterfacePaths(t *testing.T) {
	hardware := func(names ...string) (nics []placement.NIC) {
		for _, name := range names {
			nics = append(nics, placement.NIC{Name: name, Interface: name, Kind: placement.Ethernet, Gbps: 100})
		}
		return nics
	}
	a := end{Host: "h1", NICs: hardware("eth0", "rail0", "rail1"), Addresses: []address{
		at("eth0", "10.0.0.1/24"), at("docker0", "172.17.0.1/16"), at("rail0", "10.1.0.0/31"),
		at("rail1", "10.2.0.0/31"), at("eth0", "fd00::1/64"),
	}}
	slow := placement.NIC{Interface: "rail1", Kind: placement.Ethernet, Gbps: 40}
	b := end{Host: "h2", NICs: append(hardware("eth0", "rail0"), slow), Addresses: []address{
		at("eth0", "10.0.0.2/24"), at("docker0", "172.17.0.1/16"), at("rail0", "10.1.1.0/31"),
		at("rail1", "10.2.1.0/31"), at("eth0", "fd00::2/64"),
	}}
	paths := interfacePaths(a, b)
	require.Equal(t, []string{
		"h1 eth0 10.0.0.1 > h2 eth0 10.0.0.2 by tcp", "h1 rail0 10.1.0.0 > h2 rail0 10.1.1.0 by tcp",
		"h1 rail1 10.2.0.0 > h2 rail1 10.2.1.0 by tcp",
	}, named(paths))
	require.InDelta(t, 12.5, paths[0].Link, 0)
	require.InDelta(t, 5, paths[2].Link, 0, "the slower end counts")
}

// RDMA ports are paired in order, each kind separately. Every path lists its missing programs.
func TestRDMAPaths(t *testing.T) {
	port := func(name string, kind placement.NICKind) placement.NIC {
		return placement.NIC{Name: name, Port: 1, Kind: kind, Up: true, Gbps: 400, GID: -1}
	}
	efa, roce, ib := port("efa_0", placement.EFA), placement.RoCE, placement.InfiniBand
	a := end{Host: "h1", NICs: []placement.NIC{port("mlx5_0", roce), port("mlx5_1", ib), efa}}
	b := end{Host: "h2", NICs: []placement.NIC{port("mlx5_0", ib), port("mlx5_1", roce), efa}}
	tcp := []Path{{ends: [2]address{at("eth0", "10.0.0.1/24"), at("eth0", "10.0.0.2/24")}}}
	paths := rdmaPaths(a, b, 1, tcp)
	require.Equal(t, []string{"h1 mlx5_1 > h2 mlx5_0 by ib_write_bw", "h1 mlx5_0 > h2 mlx5_1 by ib_write_bw"},
		named(paths))
	require.Empty(t, paths[0].Error)
	require.InDelta(t, 50, paths[0].Link, 0)
	b.Missing = []string{writeBandwidth, writeLatency}
	require.Equal(t, "ib_write_bw and ib_write_lat not found on h2; install perftest there",
		rdmaPaths(a, b, 1, tcp)[0].Error)
	require.Contains(t, rdmaPaths(a, b, 1, nil)[0].Error, "the hosts share no network")
}

func TestPerftestColumn(t *testing.T) {
	const said = "---\n Dual-port : OFF\n" +
		" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n" +
		" 65536      20000            97.64              97.63  \t\t   0.186217\n---\n"
	v, err := perftestColumn(said, 3)
	require.NoError(t, err)
	require.InDelta(t, 97.63, v, 0)
	_, err = perftestColumn(said, 9)
	require.ErrorContains(t, err, "5 columns")
	_, err = perftestColumn("Couldn't connect", 3)
	require.Error(t, err)
}

// Paths cover every pair of GPUs, named as in the machine's topology, then each GPU and its host's memory.
func TestPathsBetweenGPUs(t *testing.T) {
	dir := fake.Build(t)
	t.Setenv("COMM_NCCL_LIBRARY", dir)
	t.Setenv("COMM_CUDART_LIBRARY", dir)
	t.Setenv("FAKE_CUDA_DEVICES", "3")
	machine, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	machine.GPUs[2].Links = nil // known from the kernel's files alone
	for i := range 2 {
		machine.GPUs[i].Links = []placement.Link{{Peer: machine.GPUs[1-i].PCI, Kind: "nvlink", Count: 18}}
	}
	host := Host{Name: "dgx", Machine: func() placement.Machine {
		return machine
	}, Find: func(string) bool { return false }}
	server, err := tcpstore.Listen(tcpstore.Config{})
	require.NoError(t, err)
	defer server.Close()
	var all sync.WaitGroup
	errs, found := make([]error, 3), make([][]Path, 3)
	for rank := range errs {
		all.Go(func() {
			g, err := comm.Join(t.Context(), comm.WithRank(rank, 3), comm.WithStore(server.Addr().String()),
				comm.WithName(t.Name()),
				comm.WithBackend("nccl"))
			if err != nil {
				errs[rank] = err
				return
			}
			defer g.Close()
			b := &bench{Config: Config{Operation: "p2p", End: 1 << 16, PerSize: time.Millisecond}, group: g, host: host}
			found[rank], err = b.paths(t.Context())
			errs[rank] = errors.Join(err, comm.Barrier(context.WithoutCancel(t.Context()), g))
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	ways := map[string]string{}
	for _, p := range found[0] {
		require.Empty(t, p.Error)
		require.Positive(t, p.Forth, p)
		require.Positive(t, p.Back, p)
		ways[p.From+" "+p.To+" "+p.By] = p.Way
	}
	require.Equal(t, map[string]string{
		"dgx GPU0 dgx GPU1 nccl": "NV18", "dgx GPU0 dgx GPU2 nccl": "NODE", "dgx GPU1 dgx GPU2 nccl": "NODE",
		"dgx memory dgx GPU0 copies": "PCIe", "dgx memory dgx GPU1 copies": "PCIe", "dgx memory dgx GPU2 copies": "PCIe",
	}, ways)
	failed := Path{From: "h1 mlx5_0", To: "h2 mlx5_0", By: writeBandwidth, Link: 50, Error: "ib_write_bw not found on h2"}
	text := pathTable(append(found[0], failed))
	require.Regexp(t, `(?m)^  dgx GPU0 +dgx GPU1 +nccl +NV18 +- +[0-9.]+ +[0-9.]+ +[0-9.]+ +- +- +-$`, text)
	require.Regexp(t, `(?m)^  h1 mlx5_0 +h2 mlx5_0 +ib_write_bw +- +50.00  not measured: ib_write_bw not found on h2$`,
		text)
}

// A connection without the secret of the measurement gets no answer.
func TestStreamsNeedTheSecret(t *testing.T) {
	loopback := at("lo", "127.0.0.1/8")
	s := &streamServer{secret: [32]byte{1}}
	defer s.close()
	loopback.Port = s.listen(t.Context(), loopback)
	require.NotZero(t, loopback.Port)
	p := &Path{ends: [2]address{at("lo", "127.0.0.1/8"), loopback}}
	b := &bench{Config: Config{PerSize: time.Millisecond}, secret: s.secret}
	latency, err := b.roundTrips(t.Context(), p)
	require.NoError(t, err)
	require.Positive(t, latency)
	for _, op := range []byte{opSink, opSource} {
		rate, err := b.streams(t.Context(), p, op, manyStreams)
		require.NoError(t, err)
		require.Positive(t, rate)
	}
	b.secret[0] = 2
	_, err = b.roundTrips(t.Context(), p)
	require.Error(t, err)
	b.secret, b.PerSize = s.secret, 2*longestStream
	_, err = b.roundTrips(t.Context(), p)
	require.Error(t, err)
}
