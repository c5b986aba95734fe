package pmix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"gorun/rendezvous/world"
)

// maxHandshake bounds a handshake, in bytes. Clients send some hundred.
const maxHandshake = 64 << 10

const (
	simpleClient        = 0 // flag of a process that a launcher started and that calls PMIx_Init
	toolClient          = 5 // and of one that calls PMIx_tool_init
	maxNamespace        = 256
	bufferNotDescribed  = 1
	securityNative      = "native"
	encodingV3          = "v3"
	dataStoreHash       = "hash"
	nativeCredentialLen = 8
)

// hello is a client's part of the handshake.
type hello struct {
	security   string
	credential []byte
	flag       uint8
	ids        []byte // a tool's user and group, which the credential has, too
	proc       world.Proc
	version    string
	encoding   string
	bufferType uint8
	dataStore  string
	attributes []byte // that PMIx 5 adds, encoded, such as its PID
}

var errHandshake = errors.New("incomplete handshake")

// parseHello decodes the body of a handshake: strings that end with NUL, numbers in big endian.
func parseHello(body []byte) (hello, error) {
	d := decoder{b: body}
	h := hello{security: d.terminated()}
	h.credential = d.take(uint64(d.uint32()))
	h.flag = d.uint8()
	switch {
	case d.err != nil || h.flag == simpleClient:
	case h.flag == toolClient:
		h.ids = d.take(8)
	default:
		return h, fmt.Errorf("a tool or launcher (flag %d) connects, and the server accepts only ranks", h.flag)
	}
	h.proc = world.Proc{World: d.terminated(), Rank: d.rank()}
	h.version = d.terminated()
	h.encoding = d.terminated()
	h.bufferType = d.uint8()
	h.dataStore = d.terminated()
	if d.err != nil {
		return h, errHandshake
	}
	h.attributes = d.b
	return h, nil
}

// terminated decodes a string that ends with NUL and has no length.
func (d *decoder) terminated() string {
	end := bytes.IndexByte(d.b, 0)
	if end < 0 {
		d.fail(errHandshake)
		return ""
	}
	return string(d.take(uint64(end) + 1)[:end])
}

// check returns the status for a client, and why it may not connect.
func (h *hello) check(uid int) (status, error) {
	if h.security != securityNative || len(h.credential) < nativeCredentialLen {
		return statusInvalidCred, fmt.Errorf("its credential has %d bytes of kind %q, not %q", len(h.credential), h.security,
			securityNative)
	}
	// Both processes are on this host and share its byte order.
	if has := binary.NativeEndian.Uint32(h.credential); has != uint32(uid) {
		return statusInvalidCred, fmt.Errorf("it belongs to user %d, and the job belongs to user %d", has, uid)
	}
	if h.encoding != encodingV3 || h.bufferType != bufferNotDescribed {
		return statusNotSupported, fmt.Errorf("PMIx %s uses the encoding %q with buffer type %d, not %q with %d: "+
			"find the script that sets PMIX_SERVER_URI*, PMIX_MCA_bfrops* or PMIX_BFROP_BUFFER_TYPE between gorun "+
			"and the rank, and unset them",
			h.version, h.encoding, h.bufferType, encodingV3, bufferNotDescribed)
	}
	if !strings.HasPrefix(h.dataStore, dataStoreHash) {
		return statusNotSupported, fmt.Errorf("PMIx %s keeps data in %q, not in %q: find the script that sets "+
			"PMIX_GDS_MODULE or PMIX_MCA_gds between gorun and the rank, and unset them", h.version, h.dataStore, dataStoreHash)
	}
	return statusSuccess, nil
}

// handshake reads a client's handshake and answers it.
func (s *Server) handshake(c *conn) error {
	f, err := readFrame(c.in, binary.NativeEndian, maxHandshake)
	if err != nil {
		return err
	}
	h, err := parseHello(f.body)
	if err != nil {
		c.write(handshakeReply(statusNotSupported))
		return err
	}
	code, why := h.check(s.cfg.UID)
	if why == nil {
		code, why = s.admit(c, &h)
	}
	if why != nil {
		s.refuse(c, h.proc, code, why)
		return why
	}
	s.cfg.Launcher.Began(c.proc, "PMIx "+c.version)
	reply := binary.BigEndian.AppendUint32(handshakeReply(statusSuccess), c.index)
	if h.flag == toolClient { // it gets the name of its server in place of an index
		var server [maxNamespace]byte
		copy(server[:], serverName(s.number()))
		reply = append(handshakeReply(statusSuccess), server[:]...)
		reply = binary.BigEndian.AppendUint64(reply, 0) // the server's rank, and a status
	}
	c.out.Send(reply)
	return nil
}

// refuse answers a client that may not connect. If it names a rank of this node, it may be a client of PMIx 4.2, which
// takes every status for success and requests its job's data. If the connection ends before it has recorded that it
// waits for the reply, it waits for ever. So the connection stays until the request, or handshakeTimeout.
func (s *Server) refuse(c *conn, p world.Proc, code status, why error) {
	c.write(handshakeReply(code))
	if !s.isLocal(p) {
		return
	}
	if code == statusNotSupported {
		s.cfg.Launcher.Broken(p, why)
	}
	readFrame(c.in, binary.BigEndian, maxHandshake)
}

// admit makes a connection that of a rank of this node.
func (s *Server) admit(c *conn, h *hello) (status, error) {
	s.node.Lock()
	defer s.node.Unlock()
	p := h.proc
	n := s.spaces[p.World]
	if n == nil || !n.Has(p.Rank) || !n.IsLocal(p.Rank) || n.member(p.Rank).processEnded || s.closed {
		return statusNotFound, fmt.Errorf("no rank of this node is rank %d of its world", p.Rank)
	}
	m := n.member(p.Rank)
	if s.cfg.Only != "" && s.cfg.Only != "PMIx" {
		text := world.NotServed("PMIx", true)
		s.node.Say(p, text)
		return statusNotFound, errors.New(text)
	}
	if m.inMPI() {
		s.refuseSecond(p, m)
		return statusExists, fmt.Errorf("rank %d has called MPI_Init already", p.Rank)
	}
	if m.began {
		m.data.restart()
		clear(m.groups)
	}
	m.began = true
	s.lastIndex++
	c.proc, c.space, c.member, c.version, c.index = p, n, m, h.version, s.lastIndex
	m.conns = append(m.conns, c)
	s.conns[c] = struct{}{}
	s.removePending(c)
	return statusSuccess, nil
}

// refuseSecond tells the user, once, that a child of a rank calls MPI_Init while the rank itself uses MPI. The child
// has the rank's name in its environment, so that its messages would reach the rank's peers as the rank's own.
func (s *Server) refuseSecond(p world.Proc, m *member) {
	if m.refused {
		return
	}
	m.refused = true
	s.node.Say(p, fmt.Sprintf("gorun: refused MPI_Init in a child of rank %d, since the rank itself is in MPI: start "+
		"it with MPI_Comm_spawn, or unset PMIX_* and OMPI_MCA_orte_local_daemon_uri to run it alone", p.Rank))
}

// isLocal reports whether p names a rank of this node.
func (s *Server) isLocal(p world.Proc) bool {
	s.node.Lock()
	defer s.node.Unlock()
	n := s.spaces[p.World]
	return n != nil && n.Has(p.Rank) && n.IsLocal(p.Rank)
}

func handshakeReply(code status) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(code))
}
