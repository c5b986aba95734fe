package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// Ports on the two hosts, whose network is nobody else's.
const (
	storePort = 29400
	glooPort  = 29500
	rawPort   = 29600
)

// hostOperations are measured between two hosts: those of the targets, and a vector's way there and back.
var hostOperations = []string{"pingpong", "allreduce", "broadcast", "allgather", "sendrecv", "barrier"}

// spread builds the commands that start a peer's ranks on two hosts, each of them with its own means: ranks 0 to each-1 on the first one.
type spread struct {
	*crew
	hosts       *namespaces
	each, bytes int
	key         string
	shell       string // what MPI's launchers call instead of ssh
}

// measureHosts measures with each number of ranks a host. Where the machine does not let it make hosts there is a note.
func measureHosts(o options, c *crew, p *probe) (rows []*row, err error) {
	if len(o.hosts) == 0 {
		return nil, nil
	}
	hosts, err := newNamespaces(c.self)
	if err != nil {
		c.notes = append(c.notes, "left out: two hosts: "+err.Error())
		return nil, nil
	}
	defer hosts.close()
	for _, each := range o.hosts {
		measured, err := measureSpread(o, c, p, hosts, each)
		if err != nil {
			return nil, err
		}
		rows = append(rows, measured...)
	}
	return rows, nil
}

func measureSpread(o options, c *crew, p *probe, hosts *namespaces, each int) ([]*row, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	s := spread{crew: c, hosts: hosts, each: each, bytes: max(slices.Max(append(o.hostSizes, 0)), 4096), key: hex.EncodeToString(key)}
	s.shell = filepath.Join(c.dir, fmt.Sprintf("remote-shell-%d", each))
	if err := os.WriteFile(s.shell, []byte(hosts.remoteShell(each)), 0o700); err != nil {
		return nil, err
	}
	there, err := c.start(scene{ranks: 2 * each, each: each}, s.programs)
	if err != nil {
		return nil, err
	}
	defer closeAll(there.sessions)
	return measureAll(o, c, p, there, hostOperations, o.hostSizes)
}

// programs are a peer's commands, none where this machine lacks it.
func (s *spread) programs(name string) []program {
	size := strconv.Itoa(s.bytes)
	switch {
	case name == ours:
		return s.ranks(s.member, s.self, "-rank", size)
	case name == gloo && s.python != "":
		return s.ranks(s.glooMember, s.python, s.script, size)
	case name == raw && s.each == 1 && s.crew.programs[raw] != "":
		return s.rawPair(size)
	case s.crew.programs[name] == "":
		return nil
	case name == openMPI:
		return s.openMPI(size)
	case name == mpich:
		return s.mpich(size)
	}
	return nil
}

// ranks is a command for each rank, without a launcher.
func (s *spread) ranks(environ func(rank int) []string, argv ...string) (all []program) {
	for rank := range 2 * s.each {
		all = append(all, program{s.hosts.bound(rank/s.each, s.each, argv...), environ(rank)})
	}
	return all
}

func (s *spread) member(rank int) []string {
	return []string{fmt.Sprintf("%s=%d %d %s:%d %s", memberVariable, rank, 2*s.each, hostAddress(0), storePort, s.key)}
}

func (s *spread) glooMember(rank int) []string {
	return []string{
		"MASTER_ADDR=" + hostAddress(0), fmt.Sprintf("MASTER_PORT=%d", glooPort), "GLOO_SOCKET_IFNAME=" + device,
		fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", 2*s.each), fmt.Sprintf("LOCAL_RANK=%d", rank%s.each),
	}
}

func (s *spread) rawPair(size string) (all []program) {
	for rank := range 2 {
		argv := s.hosts.bound(rank, 1, s.crew.programs[raw], size, strconv.Itoa(rank), hostAddress(0), strconv.Itoa(rawPort))
		all = append(all, program{Argv: argv})
	}
	return all
}

// openMPI: its own transport over TCP and, within a host, shared memory.
func (s *spread) openMPI(size string) []program {
	each := strconv.Itoa(s.each)
	argv := []string{
		s.mpirun, "--allow-run-as-root", "--mca", "plm_rsh_agent", s.shell, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader",
		"--mca", "btl_tcp_if_include", device, "--mca", "oob_tcp_if_include", device, "--bind-to", "none", "--map-by", "slot",
		"--host", hostAddress(0) + ":" + each + "," + hostAddress(1) + ":" + each,
	}
	if 2*s.each > runtime.NumCPU() {
		argv = append(argv, "--mca", "mpi_yield_when_idle", "1")
	}
	argv = append(argv, "-n", strconv.Itoa(2*s.each), s.crew.programs[openMPI], size)
	return []program{{Argv: s.hosts.bound(0, s.each, argv...)}}
}

// mpich: UCX over TCP. Left to itself UCX takes the two hosts for one, whose memory it could share.
func (s *spread) mpich(size string) []program {
	argv := []string{
		s.mpiexec, "-launcher", "ssh", "-launcher-exec", s.shell, "-hosts", hostAddress(0) + "," + hostAddress(1), "-ppn", strconv.Itoa(s.each),
		"-n", strconv.Itoa(2 * s.each), s.crew.programs[mpich], size,
	}
	return []program{{Argv: s.hosts.bound(0, s.each, argv...), Environ: []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=" + device}}}
}
