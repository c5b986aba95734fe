package pmix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"gorun/rendezvous/world"
)

// maxHandshake is the largest handshake, in bytes; clients send some hundred.
const maxHandshake = 64 << 10

const (
	simpleClient        = 0 // the flag of who was started by a launcher; others are tools
	toolClient          = 5 // and of who was, and calls PMIx_tool_init in place of PMIx_Init
	maxNamespace        = 256
	bufferNotDescribed  = 1
	securityNative      = "native"
	encodingV3          = "v3"
	dataStoreHash       = "hash"
	nativeCredentialLen = 8
)

// greeting is what a client says first.
type greeting struct {
	security   string
	credential []byte
	flag       uint8
	ids        []byte // of a tool: its user and group, which the credential says, too
	who        proc
	version    string
	encoding   string
	bufferType uint8
	dataStore  string
	// attributes is what PMIx 5 adds, encoded: its pid and the like.
	attributes []byte
}

var errGreeting = errors.New("the handshake ends before it is complete")

// parseGreeting decodes the handshake's body: strings that end with NUL, numbers in big
// endian.
func parseGreeting(body []byte) (greeting, error) {
	d := decoder{b: body}
	g := greeting{security: d.terminated()}
	g.credential = d.take(uint64(d.uint32()))
	g.flag = d.uint8()
	switch {
	case d.err != nil || g.flag == simpleClient:
	case g.flag == toolClient:
		g.ids = d.take(8)
	default:
		return g, fmt.Errorf("a tool or a launcher (flag %d) connects where only ranks may", g.flag)
	}
	g.who = proc{nspace: d.terminated(), rank: d.uint32()}
	g.version = d.terminated()
	g.encoding = d.terminated()
	g.bufferType = d.uint8()
	g.dataStore = d.terminated()
	if d.err != nil {
		return g, errGreeting
	}
	g.attributes = d.b
	return g, nil
}

// terminated is a string that ends with NUL and has no length.
func (d *decoder) terminated() string {
	end := bytes.IndexByte(d.b, 0)
	if end < 0 {
		d.fail(errGreeting)
		return ""
	}
	return string(d.take(uint64(end) + 1)[:end])
}

// check reports why a client may not connect, and the status that it gets.
func (g *greeting) check(uid int) (status, error) {
	if g.security != securityNative || len(g.credential) < nativeCredentialLen {
		return statusInvalidCred, fmt.Errorf("its credential is %d bytes of %q, not of %q", len(g.credential), g.security,
			securityNative)
	}
	// In the byte order of the host: both are on it.
	if has := binary.NativeEndian.Uint32(g.credential); has != uint32(uid) {
		return statusInvalidCred, fmt.Errorf("it is user %d's, the job is user %d's", has, uid)
	}
	if g.encoding != encodingV3 || g.bufferType != bufferNotDescribed {
		return statusNotSupported, fmt.Errorf("PMIx %s uses the encoding %q with buffer type %d, not %q with %d: unset "+
			"PMIX_SERVER_URI*, PMIX_MCA_bfrops* and PMIX_BFROP_BUFFER_TYPE that something between gorun and the rank sets",
			g.version, g.encoding, g.bufferType, encodingV3, bufferNotDescribed)
	}
	if !strings.HasPrefix(g.dataStore, dataStoreHash) {
		return statusNotSupported, fmt.Errorf("PMIx %s keeps data in %q, not in %q: unset PMIX_GDS_MODULE and PMIX_MCA_gds "+
			"that something between gorun and the rank sets", g.version, g.dataStore, dataStoreHash)
	}
	return statusSuccess, nil
}

// greet reads a handshake, answers it and returns the connection that it makes.
func (s *Server) greet(c *conn) error {
	f, err := readFrame(c.in, binary.NativeEndian, maxHandshake)
	if err != nil {
		return err
	}
	g, err := parseGreeting(f.body)
	if err != nil {
		c.write(handshakeReply(statusNotSupported))
		return err
	}
	code, why := g.check(s.cfg.UID)
	if why == nil {
		code, why = s.admit(c, &g)
	}
	if why != nil {
		s.refuse(c, g.who.toWorld(), code, why)
		return why
	}
	s.cfg.Launcher.Began(c.who, "PMIx "+c.version)
	reply := binary.BigEndian.AppendUint32(handshakeReply(statusSuccess), c.index)
	if g.flag == toolClient { // it hears who its server is, in place of an index
		var server [maxNamespace]byte
		copy(server[:], serverName(s.cfg.Node))
		reply = append(handshakeReply(statusSuccess), server[:]...)
		reply = binary.BigEndian.AppendUint64(reply, 0) // the server's rank, and a status
	}
	c.out.Send(reply)
	return nil
}

// refuse answers who is not let in. If it says that it is a rank of this node, it may be a
// client of PMIx 4.2, which takes every status for success, and asks for its job's data. If
// its connection ends before it has noted that it waits for them, it waits for ever: it
// ends when the client asks or ends it itself, after handshakeTime at most.
func (s *Server) refuse(c *conn, who world.Proc, code status, why error) {
	c.write(handshakeReply(code))
	if !s.known(who) {
		return
	}
	if code == statusNotSupported {
		s.cfg.Launcher.Broken(who, why)
	}
	readFrame(c.in, binary.BigEndian, maxHandshake)
}

// admit lets a client in: its world must be known, and its rank be one of this node's.
func (s *Server) admit(c *conn, g *greeting) (status, error) {
	s.lock()
	defer s.unlock()
	who := g.who.toWorld()
	n, m, ok := s.find(who)
	if !ok || n.world.Ranks[who.Rank].Node != s.cfg.Node || m.gone || s.closed {
		return statusNotFound, fmt.Errorf("no rank of this node is rank %d of its world", g.who.rank)
	}
	if s.cfg.Only != "" && s.cfg.Only != "PMIx" {
		said := world.NotServed("PMIx", true)
		s.say(who, said)
		return statusNotFound, errors.New(said)
	}
	if m.inMPI() {
		s.refuseSecond(who, m)
		return statusExists, fmt.Errorf("rank %d has called MPI_Init already", who.Rank)
	}
	if m.began {
		m.data.beginAnew()
		m.groups = nil
	}
	m.began = true
	s.index++
	c.who, c.space, c.member, c.version, c.index = who, n, m, g.version, s.index
	m.conns = append(m.conns, c)
	s.conns[c] = struct{}{}
	s.forget(c)
	return statusSuccess, nil
}

// refuseSecond tells, once, that a process which a rank started calls MPI_Init while the
// rank itself uses MPI. It has the rank's name in its environment: its messages would reach
// the rank's peers as if they were the rank's.
func (s *Server) refuseSecond(who world.Proc, m *member) {
	if m.refused {
		return
	}
	m.refused = true
	text := fmt.Sprintf("gorun: a process that rank %d started calls MPI_Init while rank %d is in MPI itself; it cannot "+
		"be the same rank and is refused: start it by MPI_Comm_spawn, or without the variables PMIX_* and "+
		"OMPI_MCA_orte_local_daemon_uri to run it alone", who.Rank, who.Rank)
	s.say(who, text)
}

// known reports whether there is such a rank here.
func (s *Server) known(p world.Proc) bool {
	s.lock()
	defer s.unlock()
	n := s.spaces[p.World]
	return n != nil && n.has(p.Rank) && n.world.Ranks[p.Rank].Node == s.cfg.Node
}

func handshakeReply(code status) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(code))
}
