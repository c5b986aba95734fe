package pmi

import (
	"cmp"
	"strconv"
	"strings"
)

// put stores a pair. PMI-1 names the space, which is the rank's own world.
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

// get looks up a key, in this world or, after a spawn or connect, in another.
func (c *session) get(q request) (string, error) {
	key, err := q.need("key")
	if err != nil {
		return "", err
	}
	if name := cmp.Or(q.get("kvsname"), q.get("jobid")); name != "" && name != c.p.World {
		c.server.lookup(name, key, func(value string, ok bool) { c.replyLater(q.found(key, value, ok)) })
		return "", nil
	}
	value, ok := c.space.lookup(key)
	if !ok && key == topologyKey {
		ok = c.server.unlocked(func() (err error) { value, err = c.server.topologyFile(); return err }) == nil
	}
	return q.found(key, value, ok), nil
}

// found formats the reply with the value of a key, if it has one.
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

// topologyKey is the key that MPICH 5 uses to ask for a file with the machine's topology. Without one each rank
// discovers the topology itself, which takes many milliseconds.
const topologyKey = "PMI_hwloc_xmlfile"

// topologyFile returns the name of that file, if PMI can carry it.
func (s *Server) topologyFile() (name string, err error) {
	if s.cfg.TopologyFile == nil {
		return "", errValueLength
	}
	if name, err = s.cfg.TopologyFile(); len(name) > valueMax || strings.ContainsAny(name, " \n") {
		err = errValueLength
	}
	return name, err
}

// jobAttribute returns an attribute of the world.
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

// nodeAttribute puts an attribute of the host, gets it, or waits for it.
func (c *session) nodeAttribute(q request) (string, error) {
	key, err := q.need("key")
	if err != nil {
		return "", err
	}
	action := attributeGet
	switch {
	case q.command() == "info-putnodeattr":
		action = attributePut
	case q.get("wait") == "TRUE":
		action = attributeWait
	}
	if len(key) > keyMax || len(q.get("value")) > valueMax {
		return q.result(errValueLength), nil
	}
	remote := 0
	if action == attributeWait && c.space.attributesNode(c.p.Rank) != c.server.cfg.Exchange.Number() {
		remote = 1
	}
	c.remoteWaits += remote
	c.server.attribute(c.space, c.p.Rank, action, key, q.get("value"), func(outcome, value string) {
		c.remoteWaits -= remote
		switch {
		case outcome == failed:
			c.replyLater(q.failure("-1", word(value)))
		case action == attributePut:
			c.replyLater(q.result(nil))
		default:
			c.replyLater(q.found(key, value, outcome == found))
		}
	})
	return "", nil
}

// ring is PMIX_Ring of Slurm's clients, with which MVAPICH begins: the ranks form a ring in their order, and each gets
// what its neighbors send to their right and left.
func (c *session) ring(q request) (string, error) {
	sp, size, err := c.space, len(c.space.Ranks), errValueLength
	c.rings++
	round := strconv.Itoa(c.rings) + "/" // a neighbor may enter the next one before this rank has its reply
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
