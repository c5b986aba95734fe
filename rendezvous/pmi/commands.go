package pmi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// command describes a request of a protocol.
type command struct {
	reply  string // name of the reply
	stage  stage  // that the client must have reached
	handle handler
}

// handler returns the reply to a request, or "" if it comes later, by session.replyLater, or never. It is called with
// the lock held, and may release it while it waits.
type handler func(c *session, q request) (string, error)

// stage is how far a client has come.
type stage uint8

const (
	initialized stage = iota // it has begun MPI
	identified               // its rank is known
	anonymous                // it has connected
)

// commandsOf are the commands of PMI-1 (false) and of PMI-2, which come in frames (true).
var commandsOf = sync.OnceValue(func() map[bool]map[string]command {
	return map[bool]map[string]command{
		false: {
			"initack": {"initack", anonymous, (*session).initack},
			"init":    {"response_to_init", identified, (*session).init},
			"singinit": {"", anonymous, func(*session, request) (string, error) {
				return "", malformed("a program that gorun did not start requests singinit, which gorun does not " +
					"support: start it with gorun")
			}},
			"abort": {"", identified, (*session).abort},
			"get_maxes": {reply: "maxes", handle: fixedReply("kvsname_max", strconv.Itoa(kvsNameMax), "keylen_max",
				strconv.Itoa(keyMax), "vallen_max", strconv.Itoa(valueMax), "rc", "0")},
			"get_appnum":        {reply: "appnum", handle: (*session).appNumber},
			"get_my_kvsname":    {reply: "my_kvsname", handle: (*session).worldName},
			"get_universe_size": {reply: "universe_size", handle: (*session).universe},
			"get_ranks2hosts":   {handle: (*session).ranksToHosts},
			"put":               {reply: "put_result", handle: (*session).put},
			"get":               {reply: "get_result", handle: (*session).get},
			"barrier_in":        {reply: "barrier_out", handle: (*session).barrierIn},
			"publish_name":      {reply: "publish_result", handle: (*session).name},
			"lookup_name":       {reply: "lookup_result", handle: (*session).name},
			"unpublish_name":    {reply: "unpublish_result", handle: (*session).name},
			"spawn":             {reply: "spawn_result", handle: (*session).spawn},
			"finalize":          {reply: "finalize_ack", handle: (*session).finalize},
		},
		true: inFrames(map[string]command{
			"fullinit":         {stage: anonymous, handle: (*session).fullInit},
			"abort":            {stage: identified, handle: (*session).abort},
			"job-getid":        {handle: (*session).worldName},
			"job-connect":      {handle: (*session).connect},
			"job-disconnect":   {handle: (*session).connect},
			"info-getjobattr":  {handle: (*session).jobAttribute},
			"info-putnodeattr": {handle: (*session).nodeAttribute},
			"info-getnodeattr": {handle: (*session).nodeAttribute},
			"kvs-put":          {handle: (*session).put},
			"kvs-get":          {handle: (*session).get},
			"kvs-fence":        {handle: (*session).fence},
			"ring":             {handle: (*session).ring},
			"name-publish":     {handle: (*session).name},
			"name-lookup":      {handle: (*session).name},
			"name-unpublish":   {handle: (*session).name},
			"spawn":            {handle: (*session).spawn},
			"finalize":         {handle: (*session).finalize},
		}),
	}
})

// inFrames names the replies as PMI-2 does.
func inFrames(commands map[string]command) map[string]command {
	for name, cmd := range commands {
		cmd.reply = name + "-response"
		commands[name] = cmd
	}
	return commands
}

// handle carries out a request and sends the reply.
func (c *session) handle(q request) error {
	name, version := q.command(), 1
	identifies := "initack"
	if q.framed {
		version, identifies = 2, "fullinit"
	}
	cmd, known := commandsOf()[q.framed][name]
	switch {
	case cmd.stage == anonymous && known:
	case c.p.Rank == world.AllRanks && (name != "init" || q.get("pmi_version") == "1"):
		return malformed("%s on a connection that has not sent its rank in %s", printable(name), identifies)
	case cmd.stage == initialized && (!c.began || c.in.framed != q.framed):
		return malformed("%s before init for PMI-%d", printable(name), version)
	case !known:
		return malformed("unknown command of PMI-%d: %s", version, printable(name))
	}
	q.reply = cmd.reply
	text, err := c.call(cmd.handle, q)
	if err == nil && text != "" {
		c.send(text) // after the unlock, so that the launcher knows before the rank does
	}
	return err
}

// call calls a handler with the lock held, and counts a reply that is to come later.
func (c *session) call(handle handler, q request) (string, error) {
	s := c.server
	s.node.Lock()
	defer s.node.Unlock()
	text, err := handle(c, q)
	if text == "" && err == nil && !c.aborted {
		if c.pending++; c.pending > maxPending {
			err = malformed("more than %d requests at once", maxPending)
		}
	}
	return text, err
}

// text formats the reply to a request. pairs are keys and values.
func (q request) text(pairs ...string) string {
	if q.framed {
		return frame(q.fields, q.reply, pairs...)
	}
	var b strings.Builder
	b.WriteString("cmd=" + q.reply)
	for pair := range slices.Chunk(pairs, 2) {
		b.WriteString(" " + pair[0] + "=" + pair[1])
	}
	return b.String() + "\n"
}

// failure formats the reply to a request that was not carried out.
func (q request) failure(code string, why string) string {
	if q.framed {
		return q.text("rc", code, "errmsg", why)
	}
	return q.text("rc", code, "msg", why)
}

// result formats the reply to a request that has no other result than err.
func (q request) result(err error) string {
	if err != nil {
		return q.failure("-1", word(err.Error()))
	}
	return q.text("rc", "0")
}

// fixedReply handles a request whose reply is always the same.
func fixedReply(pairs ...string) handler {
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

func (c *session) ranksToHosts(request) (string, error) {
	return ranksToHosts(c.space.World.World), nil
}

// unlocked releases the lock during a call that may wait.
func (s *Server) unlocked(do func() error) error {
	s.node.Unlock()
	defer s.node.Lock()
	return do()
}

// initack begins a connection to PMI_PORT: the client gives its PMI_ID, which is its rank in the job, and gets what
// others have in their environment.
func (c *session) initack(q request) (string, error) {
	if err := c.server.unlocked(func() error { return c.claim(q, "pmiid") }); err != nil {
		return "", err
	}
	return fmt.Sprintf("cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", len(c.space.Ranks),
		c.p.Rank), nil
}

// fullInit returns the rank and the size of its world. Slurm's clients insist on the hyphens of pmi-version. A client
// that has connected to PMI_PORT gives its PMI_ID as pmirank.
func (c *session) fullInit(q request) (string, error) {
	connects := c.p.Rank == world.AllRanks
	if connects {
		if err := c.server.unlocked(func() error { return c.claim(q, "pmirank") }); err != nil {
			return "", err
		}
		c.begin(2)
	}
	if !c.began {
		return "", malformed("%s before init for PMI-2", printable(q.command()))
	}
	pairs := []string{
		"rc", "0", "pmi-version", "2", "pmi-subversion", "0", "rank", strconv.Itoa(c.p.Rank),
		"size", strconv.Itoa(len(c.space.Ranks)), "appnum", strconv.Itoa(c.rank().App),
	}
	if parent := c.space.Parent; parent != (world.Proc{}) {
		pairs = append(pairs, "spawner-jobid", parent.World)
	}
	reply := q.text(append(pairs, "debugged", "FALSE", "pmiverbose", "FALSE")...)
	if connects && !c.space.enter(c.p.Rank, func() { c.replyLater(reply) }) {
		return "", nil
	}
	return reply, nil
}

// abort is MPI_Abort. The client waits for no reply.
func (c *session) abort(q request) (string, error) {
	message := q.get("message") + q.get("msg")
	code := codeIn(message)
	if _, given := q.find("exitcode"); given {
		code = 1
		if n, err := q.number("exitcode", -1<<31, 1<<31-1); err == nil {
			code = n
		}
	}
	c.aborted = true
	c.server.node.AfterUnlock(func() { c.server.cfg.Launcher.Abort(c.p, code, message) })
	return "", nil
}

// codeIn returns the exit code in MPICH's message, which is all that its PMI-2 client sends:
// "application called MPI_Abort(MPI_COMM_WORLD, 42) - process 0". It is 1 if none exists.
func codeIn(message string) int {
	_, call, _ := strings.Cut(message, "MPI_Abort(")
	arguments, _, _ := strings.Cut(call, ") - process ")
	if code, err := strconv.Atoi(arguments[strings.LastIndexByte(arguments, ' ')+1:]); err == nil {
		return code
	}
	return 1
}

// finalize ends MPI in the rank, which may begin it again.
func (c *session) finalize(q request) (string, error) {
	if !c.finalized {
		c.finalized = true
		c.space.generations[c.p.Rank]++
		c.space.finalize(c.p.Rank)
		c.server.node.AfterUnlock(func() { c.server.cfg.Launcher.Finalized(c.p) })
	}
	return q.text("rc", "0"), nil
}

// connect makes another world's keys readable. They always are.
func (c *session) connect(q request) (string, error) {
	switch {
	case c.server.spaces[q.get("jobid")] == nil:
		return q.text("rc", "-1", "errmsg", "unknown_jobid"), nil
	case q.command() == "job-disconnect":
		return q.text("rc", "0"), nil
	}
	return q.text("kvscopy", "0", "rc", "0"), nil
}

// barrierIn is PMI-1's barrier, of the world or of a group. A reply without rc is a success.
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

// namesSpace is the space of names that ranks publish by PMI-1 and PMI-2.
const namesSpace = "pmi"

// maxName and maxPort bound a published name and its value, in bytes.
const (
	maxName = 4096
	maxPort = 64 << 10
)

// name publishes, looks up or unpublishes a name. Published names last until the job ends; PMI lets any rank unpublish
// them.
func (c *session) name(q request) (string, error) {
	key, done := "service", []string{"rc", "0", "info", "ok"}
	if q.framed {
		key, done = "name", done[:2]
	}
	name, err := q.need(key)
	port, unpublishes := q.get("port"), strings.Contains(q.command(), "unpublish")
	publishes := !unpublishes && strings.Contains(q.command(), "publish")
	if err == nil && publishes {
		_, err = q.need("port")
	}
	if err == nil && (len(name) > maxName || len(port) > maxPort) {
		err = malformed("%s with a name of %d bytes for %d bytes", printable(q.command()), len(name), len(port))
	}
	if err != nil {
		return "", err
	}
	spaces := []string{namesSpace}
	reply := func(err error) {
		c.server.node.Lock()
		defer c.server.node.Unlock()
		if err != nil {
			c.replyLater(q.failure("1", nameFault(err)))
			return
		}
		c.replyLater(q.text(done...))
	}
	switch node := c.server.cfg.Exchange; {
	case unpublishes:
		node.Unpublish(spaces, []string{name}, world.Proc{}, reply)
	case publishes:
		node.Publish([]exchange.Name{{Space: namesSpace, Name: name, Value: []byte(port), Owner: c.p}}, reply)
	default:
		node.Lookup(exchange.Query{Spaces: spaces, Names: []string{name}, Need: 1, By: c.p},
			func(names []exchange.Name, err error) {
				if err == nil {
					value := string(names[0].Value)
					done = []string{"rc", "0", "port", value}
					if q.framed {
						done = []string{"port", value, "value", value, "rc", "0"} // Slurm's clients want value
					}
				}
				reply(err)
			})
	}
	return "", nil
}

// nameFault returns Hydra's text for an error of names.
func nameFault(err error) string {
	switch {
	case errors.Is(err, exchange.ErrPublished):
		return "key_already_present"
	case errors.Is(err, exchange.ErrNotPublished):
		return "service_not_found"
	}
	return word(err.Error())
}
