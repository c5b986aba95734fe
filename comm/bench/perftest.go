package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/comm"
	"gorun/placement"
)

// Programs of linux-rdma's perftest.
const (
	writeBandwidth = "ib_write_bw"
	writeLatency   = "ib_write_lat"
)

const (
	// perftestLimit is the timeout of one run of such a program. connectLimit is the timeout for its server to
	// listen.
	perftestLimit = 30 * time.Second
	connectLimit  = 10 * time.Second
)

// isRDMA reports whether perftest supports a port. EFA has no RDMA writes of this kind.
func isRDMA(n placement.NIC) bool { return n.Port > 0 && n.Up && n.Kind != placement.EFA }

// rdmaPaths pairs the RDMA ports of two hosts in order, InfiniBand and Ethernet separately. In most clusters
// the k-th ports of all hosts are in one network. The programs connect to each other at the address of the
// first TCP path.
func rdmaPaths(a, b end, far int, tcp []Path) (paths []Path) {
	for _, kind := range []placement.NICKind{placement.InfiniBand, placement.RoCE, placement.Virtual} {
		ports := func(e end) (list []placement.NIC) {
			for _, n := range e.NICs {
				if isRDMA(n) && n.Kind == kind {
					list = append(list, n)
				}
			}
			return list
		}
		xs, ys := ports(a), ports(b)
		for i := range min(len(xs), len(ys)) {
			p := Path{
				From: a.Host + " " + xs[i].Name, To: b.Host + " " + ys[i].Name, By: writeBandwidth,
				Link: slower(xs[i].Gbps, ys[i].Gbps) / 8,
				nics: [2]placement.NIC{xs[i], ys[i]}, ranks: [2]int{0, far}, measure: (*bench).measureRDMA,
			}
			switch {
			case len(tcp) == 0:
				p.Error = "the hosts share no network that the programs of perftest could use"
			case len(a.Missing)+len(b.Missing) > 0:
				p.Error = missing(a, b)
			default:
				p.ends = tcp[0].ends
			}
			paths = append(paths, p)
		}
	}
	return paths
}

// missing lists the missing programs by host.
func missing(hosts ...end) string {
	var all []string
	for _, e := range hosts {
		if len(e.Missing) > 0 {
			all = append(all, strings.Join(e.Missing, " and ")+" not found on "+e.Host)
		}
	}
	return strings.Join(all, ", ") + "; install perftest there"
}

// measureRDMA runs perftest's programs: the server on one host, and on the other the client, which writes into
// the server's memory.
func (b *bench) measureRDMA(ctx context.Context, p *Path) error {
	runs := []struct {
		program string
		server  int // index of the end with the server
		args    []string
		into    *float64
		column  int
		scale   float64
	}{
		{writeLatency, 1, []string{"-s", "2", "-n", "1000"}, &p.Latency, 4, 1},
		{writeBandwidth, 1, []string{"-s", "65536", "-n", "20000", "--report_gbits"}, &p.Forth, 3, 1.0 / 8},
		{writeBandwidth, 0, []string{"-s", "65536", "-n", "20000", "--report_gbits"}, &p.Back, 3, 1.0 / 8},
	}
	for _, run := range runs {
		said, err := b.onBoth(ctx, p, run.server, run.program, run.args)
		if err == nil && b.group.Rank() == p.ranks[1-run.server] {
			*run.into, err = perftestColumn(said, run.column)
			*run.into *= run.scale
		}
		if err := b.agree(ctx, p, err); err != nil || p.Error != "" {
			return err
		}
	}
	return nil
}

// onBoth runs a program on the hosts of both ends and returns the client's output. The server listens on a
// free port, which all ranks receive.
func (b *bench) onBoth(ctx context.Context, p *Path, server int, program string, args []string) (said string,
	err error,
) {
	me := slices.Index(p.ranks[:], b.group.Rank())
	port := []int64{0}
	if me == server {
		port[0] = freePort(ctx, p.ends[server])
	}
	if err := comm.AllReduce(ctx, b.group, port, port, comm.Max); err != nil || me < 0 {
		return "", err
	}
	nic := p.nics[me]
	args = slices.Concat([]string{"-d", nic.Name, "-i", strconv.Itoa(nic.Port), "-p", fmt.Sprint(port[0]), "-F"}, args)
	if nic.GID >= 0 {
		args = append(args, "-x", strconv.Itoa(nic.GID))
	}
	limited, cancel := context.WithTimeout(ctx, perftestLimit)
	defer cancel()
	if me != server {
		said, err = b.client(limited, program, append(args, p.ends[server].Prefix.Addr().String()))
		ok := []uint8{1}
		if err != nil {
			ok[0] = 0
		}
		return said, errors.Join(err, comm.Send(ctx, b.group, ok, p.ranks[server]))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.host.Output(limited, program, args...)
		ended <- err
	}()
	ok := []uint8{0}
	if err := comm.Recv(ctx, b.group, ok, p.ranks[1-server]); err != nil {
		return "", err
	}
	if ok[0] == 0 { // no client will connect
		cancel()
		<-ended
		return "", nil
	}
	return "", <-ended
}

// client runs a client until its server listens.
func (b *bench) client(ctx context.Context, program string, args []string) (said string, err error) {
	for begun := time.Now(); ; {
		said, err = b.host.Output(ctx, program, args...)
		tooEarly := err != nil && strings.Contains(said, "Couldn't connect")
		if !tooEarly || ctx.Err() != nil || time.Since(begun) > connectLimit {
			return said, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// freePort returns a port that is currently free at an address.
func freePort(ctx context.Context, at address) int64 {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", net.JoinHostPort(at.Prefix.Addr().String(), "0"))
	if err != nil {
		return 18515 // perftest's default
	}
	defer ln.Close()
	return int64(ln.Addr().(*net.TCPAddr).Port)
}

// perftestColumn parses a column of the line after the one that begins with "#bytes".
func perftestColumn(said string, column int) (float64, error) {
	lines := strings.Split(said, "\n")
	head := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#bytes") })
	if head < 0 || head+1 >= len(lines) {
		return 0, errors.New("no line of results in its output")
	}
	fields := strings.Fields(lines[head+1])
	if column >= len(fields) {
		return 0, fmt.Errorf("its line of results has %d columns: %.80q", len(fields), lines[head+1])
	}
	return strconv.ParseFloat(fields[column], 64)
}
