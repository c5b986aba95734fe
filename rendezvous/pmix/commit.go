package pmix

import "fmt"

// commit serves COMMIT, which makes what a rank has put visible to others. The body is any number of group {scope}
// group {buffer}, the buffer groups of one kval each.
func (s *Server) commit(q *request, d *decoder) func() status {
	type part struct {
		to    scope
		kvals []byte
	}
	var parts []part
	for d.more() {
		p := part{to: scope(d.oneUint8())}
		d.one()
		if kind := d.uint8(); kind != bufferNotDescribed {
			d.fail(fmt.Errorf("it commits a buffer of type %d, not %d", kind, bufferNotDescribed))
		}
		p.kvals = d.bytes()
		if err := checkKvals(p.kvals); err != nil {
			d.fail(fmt.Errorf("read its commit: %w", err))
		}
		parts = append(parts, p)
	}
	return func() status {
		code, m := statusSuccess, q.member
		for _, p := range parts {
			if !m.data.add(p.to, p.kvals) {
				code = statusOutOfResource
			}
		}
		m.data.committed = true
		s.finishHeld(m)
		return code
	}
}

// checkKvals checks that b is groups of one kval each.
func checkKvals(b []byte) error {
	d := decoder{b: b}
	for d.more() {
		d.one()
		d.text()
		d.valueAt(0)
	}
	return d.err
}
