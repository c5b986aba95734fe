package pmi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// command is a request that clients of a protocol send.
type command struct {
	// answer is the name of the answer.
	answer string
	when   phase
	serve  handler
}

// handler gives the answer to a request, "" where that comes later, by session.answerLater, or never. It is called with
// the server locked, and may let the lock go for what waits.
type handler func(c *session, q request) (string, error)

// phase is how far a client has to be.
type phase uint8

const (
	begun   phase = iota // it has begun MPI
	ranked               // it is known which rank it is
	unknown              // anybody
)

// commandsOf are those of PMI-1 and PMI-2, by whether they come in frames.
var commandsOf = map[bool]map[string]command{
	false: {
		"initack": {"initack", unknown, (*session).initack},
		"init":    {"response_to_init", ranked, (*session).begin},
		"singinit": {"", unknown, func(*session, request) (string, error) {
			return "", malformed("a program that was started by itself asks to be taken in (singinit), which cannot be: " +
				"start it with gorun")
		}},
		"abort": {"", ranked, (*session).abort},
		"get_maxes": {answer: "maxes", serve: says("kvsname_max", strconv.Itoa(kvsNameMax), "keylen_max",
			strconv.Itoa(keyMax), "vallen_max", strconv.Itoa(valueMax), "rc", "0")},
		"get_appnum":        {answer: "appnum", serve: (*session).appNumber},
		"get_my_kvsname":    {answer: "my_kvsname", serve: (*session).worldName},
		"get_universe_size": {answer: "universe_size", serve: (*session).universe},
		"get_ranks2hosts":   {serve: (*session).ranksToHosts},
		"put":               {answer: "put_result", serve: (*session).put},
		"get":               {answer: "get_result", serve: (*session).get},
		"barrier_in":        {answer: "barrier_out", serve: (*session).barrierIn},
		"publish_name":      {answer: "publish_result", serve: (*session).name},
		"lookup_name":       {answer: "lookup_result", serve: (*session).name},
		"unpublish_name":    {answer: "unpublish_result", serve: (*session).name},
		"spawn":             {answer: "spawn_result", serve: (*session).spawn},
		"finalize":          {answer: "finalize_ack", serve: (*session).finalize},
	},
	true: inFrames(map[string]command{
		"fullinit":         {when: unknown, serve: (*session).fullInit},
		"abort":            {when: ranked, serve: (*session).abort},
		"job-getid":        {serve: (*session).worldName},
		"job-connect":      {serve: (*session).connect},
		"job-disconnect":   {serve: (*session).connect},
		"info-getjobattr":  {serve: (*session).jobAttribute},
		"info-putnodeattr": {serve: (*session).nodeAttribute},
		"info-getnodeattr": {serve: (*session).nodeAttribute},
		"kvs-put":          {serve: (*session).put},
		"kvs-get":          {serve: (*session).get},
		"kvs-fence":        {serve: (*session).fence},
		"ring":             {serve: (*session).ring},
		"name-publish":     {serve: (*session).name},
		"name-lookup":      {serve: (*session).name},
		"name-unpublish":   {serve: (*session).name},
		"spawn":            {serve: (*session).spawn},
		"finalize":         {serve: (*session).finalize},
	}),
}

// inFrames has answers named as PMI-2 names them.
func inFrames(commands map[string]command) map[string]command {
	for name, cmd := range commands {
		cmd.answer = name + "-response"
		commands[name] = cmd
	}
	return commands
}

// answer carries out a request.
func (c *session) answer(q request) error {
	name, version := q.command(), 1
	says := "initack"
	if q.framed {
		version, says = 2, "fullinit"
	}
	cmd, known := commandsOf[q.framed][name]
	switch {
	case cmd.when == unknown && known:
	case c.p.Rank == world.AllRanks && (name != "init" || q.get("pmi_version") == "1"):
		return malformed("%s on a connection which has not said its rank by %s", printable(name), says)
	case cmd.when == begun && (!c.began || c.in.framed != q.framed):
		return malformed("%s before init for PMI-%d", printable(name), version)
	case !known:
		return malformed("a command that PMI-%d does not know: %s", version, printable(name))
	}
	q.answer = cmd.answer
	text, err := c.serve(cmd, q)
	if err == nil && text != "" {
		c.say(text) // after the launcher has heard
	}
	return err
}

func (c *session) serve(cmd command, q request) (string, error) {
	s := c.server
	s.mu.Lock()
	defer s.unlock()
	text, err := cmd.serve(c, q)
	if text == "" && err == nil && !c.aborted {
		if c.pending++; c.pending > maxPending {
			err = errPending
		}
	}
	return text, err
}

// text is the answer to a request: pairs are keys and values.
func (q request) text(pairs ...string) string {
	if q.framed {
		return frame(q.fields, q.answer, pairs...)
	}
	var b strings.Builder
	b.WriteString("cmd=" + q.answer)
	for pair := range slices.Chunk(pairs, 2) {
		b.WriteString(" " + pair[0] + "=" + pair[1])
	}
	return b.String() + "\n"
}

// failure is an answer that says why something was not done.
func (q request) failure(code string, why string) string {
	if q.framed {
		return q.text("rc", code, "errmsg", why)
	}
	return q.text("rc", code, "msg", why)
}

// result is the answer to what went well, or did not.
func (q request) result(err error) string {
	if err != nil {
		return q.failure("-1", word(err.Error()))
	}
	return q.text("rc", "0")
}

// says serves a request whose answer is always the same.
func says(pairs ...string) handler {
	return func(_ *session, q request) (string, error) { return q.text(pairs...), nil }
}

func (c *session) appNumber(q request) (string, error) {
	return q.text("appnum", strconv.Itoa(c.rank().App), "rc", "0"), nil
}

func (c *session) worldName(q request) (string, error) {
	key := "kvsname"
	if q.framed {
		key = "jobid"
	}
	return q.text(key, c.p.World, "rc", "0"), nil
}

func (c *session) universe(q request) (string, error) {
	size, _ := c.space.universe()
	return q.text("size", size, "rc", "0"), nil
}

func (c *session) ranksToHosts(request) (string, error) { return ranksToHosts(c.space.w), nil }

// unlocked does what may wait, with the server not locked.
func (s *Server) unlocked(do func() error) error {
	s.unlock()
	defer s.mu.Lock()
	return do()
}

// initack begins a connection to PMI_PORT: the client says its PMI_ID, which is its rank in the
// job, and hears what others have in their environment.
func (c *session) initack(q request) (string, error) {
	if err := c.server.unlocked(func() error { return c.claim(q, "pmiid") }); err != nil {
		return "", err
	}
	return fmt.Sprintf("cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", len(c.space.w.Ranks),
		c.p.Rank), nil
}

// fullInit tells a rank who it is. Slurm's clients insist on the hyphens of pmi-version. One that
// has come to PMI_PORT says its PMI_ID as pmirank.
func (c *session) fullInit(q request) (string, error) {
	if c.p.Rank == world.AllRanks {
		if err := c.server.unlocked(func() error { return c.claim(q, "pmirank") }); err != nil {
			return "", err
		}
		c.start(2)
	}
	if !c.began {
		return "", malformed("%s before init for PMI-2", printable(q.command()))
	}
	pairs := []string{
		"rc", "0", "pmi-version", "2", "pmi-subversion", "0", "rank", strconv.Itoa(c.p.Rank),
		"size", strconv.Itoa(len(c.space.w.Ranks)), "appnum", strconv.Itoa(c.rank().App),
	}
	if parent := c.space.w.Parent; parent != (world.Proc{}) {
		pairs = append(pairs, "spawner-jobid", parent.World)
	}
	return q.text(append(pairs, "debugged", "FALSE", "pmiverbose", "FALSE")...), nil
}

// abort is MPI_Abort. The client ends itself, and waits for no answer.
func (c *session) abort(q request) (string, error) {
	message := q.get("message") + q.get("msg")
	code := codeIn(message)
	if _, says := q.find("exitcode"); says {
		code = 1
		if n, err := q.number("exitcode", -1<<31, 1<<31-1); err == nil {
			code = n
		}
	}
	c.aborted = true
	c.server.tell(func() { c.server.cfg.Launcher.Abort(c.p, code, message) })
	return "", nil
}

// codeIn is the exit code in MPICH's own words, which are all that its PMI-2 client sends of one:
// "application called MPI_Abort(MPI_COMM_WORLD, 42) - process 0"; 1 where they say none.
func codeIn(message string) int {
	_, call, _ := strings.Cut(message, "MPI_Abort(")
	arguments, _, _ := strings.Cut(call, ") - process ")
	if code, err := strconv.Atoi(arguments[strings.LastIndexByte(arguments, ' ')+1:]); err == nil {
		return code
	}
	return 1
}

// finalize is the end of MPI in the rank, which may begin again.
func (c *session) finalize(q request) (string, error) {
	if !c.finalized {
		c.finalized = true
		c.space.generations[c.p.Rank]++
		c.server.tell(func() { c.server.cfg.Launcher.Finalized(c.p) })
	}
	return q.text("rc", "0"), nil
}

// connect makes another job's keys readable, as they are anyway.
func (c *session) connect(q request) (string, error) {
	switch {
	case c.server.spaces[q.get("jobid")] == nil:
		return q.text("rc", "-1", "errmsg", "unknown_jobid"), nil
	case q.command() == "job-disconnect":
		return q.text("rc", "0"), nil
	}
	return q.text("kvscopy", "0", "rc", "0"), nil
}

// barrierIn is PMI-1's barrier, of all or of a group. An answer without rc is a success.
func (c *session) barrierIn(q request) (string, error) {
	b, tag := c.space.whole, []string(nil)
	if group, ok := q.find("group"); ok {
		in, name, err := c.space.group(c.p.Rank, group)
		if err == errGroups {
			return q.result(err), nil
		} else if err != nil {
			return "", err
		}
		if b = in; name != "" {
			tag = []string{"tag", name}
		}
	}
	return c.barrier(b, func(err error) string {
		if err != nil {
			tag = append([]string{"rc", "-1", "msg", word(err.Error())}, tag...)
		}
		return q.text(tag...)
	})
}

func (c *session) fence(q request) (string, error) { return c.barrier(c.space.whole, q.result) }

// namesSpace is where names lie that ranks publish by PMI-1 and PMI-2.
const namesSpace = "pmi"

// maxName and maxPort are the most bytes in a published name, and in what it stands for.
const (
	maxName = 4096
	maxPort = 64 << 10
)

// name publishes, looks up or forgets a name. One that is published is known until the job ends, or somebody
// unpublishes it, which PMI lets any rank do.
func (c *session) name(q request) (string, error) {
	key, done := "service", []string{"rc", "0", "info", "ok"}
	if q.framed {
		key, done = "name", done[:2]
	}
	name, err := q.need(key)
	port, plane, publishes := q.get("port"), c.server.cfg.Plane, strings.Contains(q.command(), "publish")
	unpublishes := strings.Contains(q.command(), "unpublish")
	if err == nil && publishes && !unpublishes {
		_, err = q.need("port")
	}
	if err == nil && (len(name) > maxName || len(port) > maxPort) {
		err = malformed("%s with a name of %d bytes for %d bytes", printable(q.command()), len(name), len(port))
	}
	if err != nil {
		return "", err
	}
	spaces := []string{namesSpace}
	heard := func(err error) {
		c.server.mu.Lock()
		defer c.server.unlock()
		if err != nil {
			c.answerLater(q.failure("1", nameFault(err)))
			return
		}
		c.answerLater(q.text(done...))
	}
	switch {
	case unpublishes:
		exchange.Unpublish(plane, spaces, []string{name}, world.Proc{}, heard)
	case publishes:
		exchange.Publish(plane, []exchange.Published{{
			Space: namesSpace, Name: name, Value: []byte(port), Owner: c.p, Keep: exchange.KeepJob,
			WorldSize: len(c.space.w.Ranks),
		}}, heard)
	default:
		exchange.Lookup(plane, exchange.Wanted{Spaces: spaces, Name: name, By: c.p}, func(n exchange.Published, err error) {
			if done = []string{"rc", "0", "port", string(n.Value)}; q.framed {
				done = []string{"port", string(n.Value), "value", string(n.Value), "rc", "0"} // Slurm's clients want value
			}
			heard(err)
		})
	}
	return "", nil
}

// nameFault is an error of names in the words that Hydra has for it.
func nameFault(err error) string {
	switch {
	case errors.Is(err, exchange.ErrPublished):
		return "key_already_present"
	case errors.Is(err, exchange.ErrNotPublished):
		return "service_not_found"
	}
	return word(err.Error())
}
