package pmi

import (
	"cmp"
	"strconv"
	"strings"
)

// put takes a pair. PMI-1's name the space, which is the rank's own world.
func (c *session) put(q request) (string, error) {
	key, err := q.need("key")
	if err != nil {
		return "", err
	}
	if name := q.get("kvsname"); name != "" && name != c.p.World {
		return q.failure("-1", "kvs_"+word(name)+"_is_not_this_world's"), nil
	}
	if err := c.space.put(c.p.Rank, key, q.get("value")); err != nil || q.framed {
		return q.result(err), nil
	}
	return q.text("rc", "0", "msg", "success"), nil
}

// get looks a key up, in this world or, after a spawn or connect, another.
func (c *session) get(q request) (string, error) {
	key, err := q.need("key")
	if err != nil {
		return "", err
	}
	if name := cmp.Or(q.get("kvsname"), q.get("jobid")); name != "" && name != c.p.World {
		c.server.lookup(name, key, func(value string, ok bool) { c.answerLater(q.found(key, value, ok)) })
		return "", nil
	}
	value, ok := c.space.lookup(key)
	if !ok && key == topologyKey {
		ok = c.server.unlocked(func() (err error) { value, err = c.server.topologyFile(); return err }) == nil
	}
	return q.found(key, value, ok), nil
}

// found is the answer that says what a key stands for, if anything.
func (q request) found(key, value string, ok bool) string {
	switch {
	case q.framed && ok:
		return q.text("found", "TRUE", "value", value, "rc", "0")
	case q.framed:
		return q.text("found", "FALSE", "rc", "0")
	case ok:
		return q.text("rc", "0", "msg", "success", "value", value)
	}
	return q.text("rc", "-1", "msg", "key_"+word(key)+"_not_found", "value", "unknown")
}

// topologyKey is by what MPICH 5 asks for the name of a file with the machine's topology. Where there is none each rank
// discovers it itself, for which it takes many milliseconds.
const topologyKey = "PMI_hwloc_xmlfile"

// topologyFile is that file, if there is one whose name can be said.
func (s *Server) topologyFile() (name string, err error) {
	if s.cfg.TopologyFile == nil {
		return "", errValueLength
	}
	if name, err = s.cfg.TopologyFile(); len(name) > valueMax || strings.ContainsAny(name, " \n") {
		err = errValueLength
	}
	return name, err
}

// jobAttribute answers what holds for the whole world.
func (c *session) jobAttribute(q request) (string, error) {
	key, err := q.need("key")
	value, ok := c.space.lookup(key)
	switch key {
	case "universeSize":
		value, ok = c.space.universe()
	case "hasNameServ":
		value, ok = "TRUE", true
	}
	return q.found(key, value, ok), err
}

// nodeAttribute puts what holds for a host, or gets it, and waits for it if that is asked.
func (c *session) nodeAttribute(q request) (string, error) {
	key, err := q.need("key")
	if err != nil {
		return "", err
	}
	what := attributeGet
	switch {
	case q.command() == "info-putnodeattr":
		what = attributePut
	case q.get("wait") == "TRUE":
		what = attributeWait
	}
	if len(key) > keyMax || len(q.get("value")) > valueMax {
		return q.result(errValueLength), nil
	}
	away := 0
	if what == attributeWait && c.space.attributesNode(c.p.Rank) != c.server.cfg.Node {
		away = 1
	}
	c.away += away
	c.server.attribute(c.space, c.p.Rank, what, key, q.get("value"), func(how, value string) {
		c.away -= away
		switch {
		case how == failed:
			c.answerLater(q.failure("-1", word(value)))
		case what == attributePut:
			c.answerLater(q.result(nil))
		default:
			c.answerLater(q.found(key, value, how == found))
		}
	})
	return "", nil
}

// ring is PMIX_Ring of Slurm's clients, with which MVAPICH begins: all ranks stand in a
// ring, in their order, and each hears what its neighbours say to their left and right.
func (c *session) ring(q request) (string, error) {
	sp, size, err := c.space, len(c.space.w.Ranks), errValueLength
	c.rings++
	round := strconv.Itoa(c.rings) + "/" // a neighbour may be in the next one before this rank was answered
	key := func(rank int) string { return "PMI_ring/" + round + strconv.Itoa((rank+size)%size) }
	if len(q.get("ring-left")) <= valueMax && len(q.get("ring-right")) <= valueMax {
		err = sp.store(c.p.Rank, key(c.p.Rank), string(packTexts(q.get("ring-left"), q.get("ring-right"))))
	}
	if err != nil {
		return q.result(err), nil
	}
	return c.barrier(sp.ring, func(err error) string {
		if err != nil {
			return q.result(err)
		}
		left, err := cutTexts([]byte(sp.pairs[key(c.p.Rank-1)].value), 2)
		right, err2 := cutTexts([]byte(sp.pairs[key(c.p.Rank+1)].value), 2)
		if err != nil || err2 != nil { // ranks that have come to rings at different times
			return q.failure("-1", "a_neighbour_is_in_another_ring")
		}
		return q.text("rc", "0", "ring-count", strconv.Itoa(c.p.Rank), "ring-left", left[1], "ring-right", right[0])
	})
}
