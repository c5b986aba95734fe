package pmi

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// answer1 carries out one request of PMI-1.
func (c *session) answer1(f fields) error {
	switch f.command() {
	case "initack":
		return c.initack(f)
	case "singinit":
		return malformed(
			"a program that was started by itself asks to be taken in (singinit), which cannot be: start it with gorun")
	}
	if c.p.Rank == world.AllRanks && (f.command() != "init" || f.get("pmi_version") == "1") {
		return malformed("%s on a connection which has not said its rank by initack", printable(f.command()))
	}
	switch f.command() {
	case "init":
		return c.begin(f)
	case "abort":
		return c.abort(abortCode(f), f.get("message"))
	}
	if !c.began || c.in.framed {
		return malformed("%s before init for PMI-1", printable(f.command()))
	}
	return c.serve1(f)
}

// serve1 answers who has begun.
func (c *session) serve1(f fields) error {
	switch f.command() {
	case "get_maxes":
		c.say(maxes)
	case "get_appnum":
		c.say("cmd=appnum appnum=" + strconv.Itoa(c.rank().App) + " rc=0\n")
	case "get_my_kvsname":
		c.say("cmd=my_kvsname kvsname=" + c.p.World + " rc=0\n")
	case "get_universe_size":
		size, _ := c.space.universe()
		c.say("cmd=universe_size size=" + size + " rc=0\n")
	case "get_ranks2hosts":
		c.say(ranksToHosts(c.space.w))
	case "put":
		return c.put1(f)
	case "get":
		return c.get1(f)
	case "barrier_in":
		return c.barrier1(f)
	case "finalize":
		return c.finalize("cmd=finalize_ack rc=0\n")
	case "publish_name", "lookup_name", "unpublish_name":
		return c.name1(f)
	default:
		return malformed("a command that PMI-1 does not know: %s", printable(f.command()))
	}
	return nil
}

var maxes = "cmd=maxes kvsname_max=" + strconv.Itoa(kvsNameMax) + " keylen_max=" + strconv.Itoa(keyMax) +
	" vallen_max=" + strconv.Itoa(valueMax) + " rc=0\n"

// initack begins a connection to PMI_PORT: the client says its PMI_ID, which is its rank in the
// job, and hears what others have in their environment.
func (c *session) initack(f fields) error {
	id, err := f.number("pmiid", 0, 1<<31-1)
	if err != nil {
		return err
	}
	if err = c.claim(id); err != nil {
		return err
	}
	c.say(fmt.Sprintf("cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", len(c.space.w.Ranks),
		c.p.Rank))
	return nil
}

func (c *session) put1(f fields) error {
	key, err := f.need("key")
	if err != nil {
		return err
	}
	if name := f.get("kvsname"); name != "" && name != c.p.World {
		c.say("cmd=put_result rc=-1 msg=kvs_" + word(name) + "_is_not_this_world's\n")
		return nil
	}
	c.server.mu.Lock()
	err = c.space.put(c.p.Rank, key, f.get("value"))
	c.server.mu.Unlock()
	if err != nil {
		c.say("cmd=put_result rc=-1 msg=" + err.Error() + "\n")
		return nil
	}
	c.say("cmd=put_result rc=0 msg=success\n")
	return nil
}

// get1 looks a key up, in this world or, after a spawn or connect, another.
func (c *session) get1(f fields) error {
	key, err := f.need("key")
	if err != nil {
		return err
	}
	text := func(value string, ok bool) string {
		if !ok {
			return "cmd=get_result rc=-1 msg=key_" + word(key) + "_not_found value=unknown\n"
		}
		return "cmd=get_result rc=0 msg=success value=" + value + "\n"
	}
	if name := f.get("kvsname"); name != "" && name != c.p.World {
		answer, err := c.later()
		if err == nil {
			c.server.lookup(name, key, func(value string, ok bool) { answer(text(value, ok)) })
		}
		return err
	}
	c.server.mu.Lock()
	value, ok := c.space.lookup(key)
	c.server.mu.Unlock()
	if !ok && key == topologyKey {
		value, ok = c.server.topologyFile()
	}
	c.say(text(value, ok))
	return nil
}

// topologyKey is by what MPICH 5 asks for the name of a file with the machine's topology. Where there is none each rank
// discovers it itself, for which it takes many milliseconds.
const topologyKey = "PMI_hwloc_xmlfile"

// topologyFile is that file, if there is one whose name can be said.
func (s *Server) topologyFile() (name string, ok bool) {
	if s.cfg.TopologyFile == nil {
		return "", false
	}
	name, err := s.cfg.TopologyFile()
	return name, err == nil && len(name) <= valueMax && !strings.ContainsAny(name, " \n")
}

func (c *session) barrier1(f fields) error {
	b, tag := c.space.whole, ""
	if text, ok := f.find("group"); ok {
		var err error
		if b, tag, err = c.server.group(c.space, c.p.Rank, text); err == errGroups {
			c.say(barrierOut("", err))
			return nil
		} else if err != nil {
			return err
		}
	}
	return c.barrier(b, func(err error) string { return barrierOut(tag, err) })
}

// barrierOut is the answer to barrier_in. One without rc is a success.
func barrierOut(tag string, err error) string {
	text := "cmd=barrier_out"
	if err != nil {
		text += " rc=-1 msg=" + word(err.Error())
	}
	if tag != "" {
		text += " tag=" + tag
	}
	return text + "\n"
}
