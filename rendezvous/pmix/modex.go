package pmix

import (
	"slices"
	"strconv"
	"time"
)

// modexService returns to other nodes what a rank of this one has committed.
//
//	request: requesting process | process | key | same host (1 or 0) | timeout in seconds | epoch of the requesting one
//	reply:   status | the rank's epoch | kvals in groups of one
const modexService = "pmix.modex"

// requestCommitted has the node that serves a rank answer. Equal requests at the same time share one message.
func (s *Server) requestCommitted(h *heldGet, node int, timeout time.Duration) {
	var e encoder
	e.proc(h.of)
	e.string(h.key)
	e.uint8(bit(h.sameHost))
	e.uint32(uint32(timeout / time.Second))
	e.uint32(h.epoch)
	same := strconv.Itoa(node) + "/" + string(e.b)
	others, inProgress := s.requested[same]
	s.requested[same] = append(others, h)
	if inProgress {
		return
	}
	var request encoder
	request.proc(h.by)
	s.node.Request(node, modexService, append(request.b, e.b...), func(reply []byte, err error) {
		s.finishRequested(same, reply, err)
	})
}

// finishRequested answers all who share a request.
func (s *Server) finishRequested(same string, reply []byte, err error) {
	held := s.requested[same]
	delete(s.requested, same)
	d := decoder{b: reply}
	code, epoch := d.status(), d.uint32()
	if err != nil || d.err != nil {
		code = statusError
	}
	for _, h := range held {
		if code == statusSuccess && !h.sameHost {
			if _, m, ok := s.find(h.of); ok {
				m.data.merge(epoch, 0, d.b)
			}
		}
		h.finish(code, slices.Clone(d.b))
	}
}

// serveModex answers another node.
func (s *Server) serveModex(_ int, d *decoder, reply func(body []byte)) {
	h := &heldGet{by: d.proc(), of: d.proc(), key: d.string(), sameHost: d.uint8() == 1}
	timeout := time.Duration(d.uint32()) * time.Second
	h.epoch = d.uint32()
	n, m, ok := s.find(h.of)
	h.reply = func(code status, kvals []byte) {
		var e encoder
		e.uint32(uint32(code))
		if ok {
			e.uint32(m.data.epoch)
		} else {
			e.uint32(0)
		}
		reply(append(e.b, kvals...))
	}
	switch {
	case d.err != nil:
	case !ok || !n.IsLocal(h.of.Rank):
		h.reply(statusNotFound, nil)
	default:
		s.getLocal(h, false, timeout)
	}
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}
