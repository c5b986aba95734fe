package pmi

import (
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// answer2 carries out one request of PMI-2.
func (c *session) answer2(f fields) error {
	if c.p.Rank == world.AllRanks && f.command() != "fullinit" {
		return malformed("%s on a connection which has not said its rank by fullinit", printable(f.command()))
	}
	switch {
	case f.command() == "abort":
		message := f.get("message") + f.get("msg")
		if _, says := f.find("exitcode"); says {
			return c.abort(abortCode(f), message)
		}
		return c.abort(codeIn(message), message)
	case !c.began && c.p.Rank != world.AllRanks:
		return malformed("%s before init for PMI-2", printable(f.command()))
	}
	switch f.command() {
	case "fullinit":
		return c.fullInit(f)
	case "job-getid":
		c.say2(f, "jobid", c.p.World, "rc", "0")
	case "info-getjobattr":
		return c.jobAttribute(f)
	case "info-putnodeattr", "info-getnodeattr":
		return c.nodeAttribute(f)
	case "kvs-put":
		return c.put2(f)
	case "kvs-get":
		return c.get2(f)
	case "kvs-fence":
		return c.barrier(c.space.whole, func(err error) string { return answerTo(f, resultOf(err)...) })
	case "ring":
		return c.ring(f)
	case "name-publish", "name-lookup", "name-unpublish":
		return c.name2(f)
	case "spawn":
		return c.spawn2(f)
	case "job-connect", "job-disconnect":
		c.connect(f)
	case "finalize":
		return c.finalize(answerTo(f, "rc", "0"))
	default:
		return malformed("a command that PMI-2 does not know: %s", printable(f.command()))
	}
	return nil
}

// codeIn is the exit code in MPICH's own words, which are all that its client sends of one:
// "application called MPI_Abort(MPI_COMM_WORLD, 42) - process 0"; 1 where they say none.
func codeIn(message string) int {
	_, call, _ := strings.Cut(message, "MPI_Abort(")
	arguments, _, _ := strings.Cut(call, ") - process ")
	if code, err := strconv.Atoi(arguments[strings.LastIndexByte(arguments, ' ')+1:]); err == nil {
		return code
	}
	return 1
}

// answerTo is the answer to a request: its name has -response behind it.
func answerTo(f fields, pairs ...string) string {
	return frame(f, f.command()+"-response", pairs...)
}

// resultOf is the part of an answer that says whether something went well.
func resultOf(err error) []string {
	if err != nil {
		return []string{"rc", "-1", "errmsg", word(err.Error())}
	}
	return []string{"rc", "0"}
}

func (c *session) say2(f fields, pairs ...string) { c.say(answerTo(f, pairs...)) }

// fullInit tells a rank who it is. Slurm's clients insist on the hyphens of pmi-version. One that
// has come to PMI_PORT says its PMI_ID as pmirank.
func (c *session) fullInit(f fields) error {
	if c.p.Rank == world.AllRanks {
		id, err := f.number("pmirank", 0, 1<<31-1)
		if err == nil {
			err = c.claim(id)
		}
		if err != nil {
			return err
		}
		c.start(2)
	}
	pairs := []string{
		"rc", "0", "pmi-version", "2", "pmi-subversion", "0", "rank", strconv.Itoa(c.p.Rank),
		"size", strconv.Itoa(len(c.space.w.Ranks)), "appnum", strconv.Itoa(c.rank().App),
	}
	if parent := c.space.w.Parent; parent != (world.Proc{}) {
		pairs = append(pairs, "spawner-jobid", parent.World)
	}
	c.say2(f, append(pairs, "debugged", "FALSE", "pmiverbose", "FALSE")...)
	return nil
}

// jobAttribute answers what holds for the whole world.
func (c *session) jobAttribute(f fields) error {
	key, err := f.need("key")
	if err != nil {
		return err
	}
	c.server.mu.Lock()
	value, ok := c.space.lookup(key)
	c.server.mu.Unlock()
	switch key {
	case "universeSize":
		value, ok = c.space.universe()
	case "hasNameServ":
		value, ok = "TRUE", true
	}
	c.say2(f, foundOr(value, ok)...)
	return nil
}

// foundOr is the part of an answer that says whether something was found.
func foundOr(value string, ok bool) []string {
	if !ok {
		return []string{"found", "FALSE", "rc", "0"}
	}
	return []string{"found", "TRUE", "value", value, "rc", "0"}
}

// nodeAttribute puts what holds for a host, or gets it, and waits for it if that is asked.
func (c *session) nodeAttribute(f fields) error {
	key, err := f.need("key")
	if err != nil {
		return err
	}
	what := attributeGet
	switch {
	case f.command() == "info-putnodeattr":
		what = attributePut
	case f.get("wait") == "TRUE":
		what = attributeWait
	}
	if len(key) > keyMax || len(f.get("value")) > valueMax {
		c.say2(f, "rc", "-1", "errmsg", errValueLength.Error())
		return nil
	}
	answer, err := c.later()
	if err != nil {
		return err
	}
	if what == attributeWait && c.space.attributesNode(c.p.Rank) != c.server.cfg.Node {
		answer = c.counted(&c.away, answer)
	}
	c.server.attribute(c.space, c.p.Rank, what, key, f.get("value"), func(how, value string) {
		switch {
		case how == failed:
			answer(answerTo(f, "rc", "-1", "errmsg", word(value)))
		case what == attributePut:
			answer(answerTo(f, "rc", "0"))
		default:
			answer(answerTo(f, foundOr(value, how == found)...))
		}
	})
	return nil
}

func (c *session) put2(f fields) error {
	key, err := f.need("key")
	if err != nil {
		return err
	}
	c.server.mu.Lock()
	err = c.space.put(c.p.Rank, key, f.get("value"))
	c.server.mu.Unlock()
	c.say2(f, resultOf(err)...)
	return nil
}

func (c *session) get2(f fields) error {
	key, err := f.need("key")
	if err != nil {
		return err
	}
	if job := f.get("jobid"); job != "" && job != c.p.World {
		answer, err := c.later()
		if err == nil {
			c.server.lookup(job, key, func(value string, ok bool) { answer(answerTo(f, foundOr(value, ok)...)) })
		}
		return err
	}
	c.server.mu.Lock()
	value, ok := c.space.lookup(key)
	c.server.mu.Unlock()
	c.say2(f, foundOr(value, ok)...)
	return nil
}

// ring is PMIX_Ring of Slurm's clients, with which MVAPICH begins: all ranks stand in a
// ring, in their order, and each hears what its neighbours say to their left and right.
func (c *session) ring(f fields) error {
	if len(f.get("ring-left")) > valueMax || len(f.get("ring-right")) > valueMax {
		c.say2(f, "rc", "-1", "errmsg", errValueLength.Error())
		return nil
	}
	s, size := c.server, len(c.space.w.Ranks)
	c.rings++
	round := strconv.Itoa(c.rings) + "/" // a neighbour may be in the next one before this rank was answered
	key := func(rank int) string { return "PMI_ring/" + round + strconv.Itoa((rank+size)%size) }
	s.mu.Lock()
	err := c.space.store(c.p.Rank, key(c.p.Rank), string(packTexts(f.get("ring-left"), f.get("ring-right"))))
	s.mu.Unlock()
	if err != nil {
		c.say2(f, "rc", "-1", "errmsg", err.Error())
		return nil
	}
	return c.barrier(c.space.ring, func(err error) string {
		if err != nil {
			return answerTo(f, resultOf(err)...)
		}
		s.mu.Lock()
		left, err := cutTexts([]byte(c.space.pairs[key(c.p.Rank-1)].value), 2)
		right, err2 := cutTexts([]byte(c.space.pairs[key(c.p.Rank+1)].value), 2)
		s.mu.Unlock()
		if err != nil || err2 != nil { // ranks that have come to rings at different times
			return answerTo(f, "rc", "-1", "errmsg", "a_neighbour_is_in_another_ring")
		}
		return answerTo(f, "rc", "0", "ring-count", strconv.Itoa(c.p.Rank), "ring-left", left[1], "ring-right", right[0])
	})
}

// connect makes another job's keys readable, as they are anyway.
func (c *session) connect(f fields) {
	if c.server.space(f.get("jobid")) == nil {
		c.say2(f, "rc", "-1", "errmsg", "unknown_jobid")
		return
	}
	if f.command() == "job-disconnect" {
		c.say2(f, "rc", "0")
		return
	}
	c.say2(f, "kvscopy", "0", "rc", "0")
}
