package pmi

import (
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// spawnKeys are the names of the fields of a spawn.
type spawnKeys struct {
	program, ranks string
	args           [2]string // their count, and the prefix of each, numbered from firstArg
	firstArg       int
	info, preput   [3]string // their count, and the prefixes of keys and values
	preputFirst    bool      // the pairs to put stand in a part of their own before the programs
}

var (
	spawnKeys1 = spawnKeys{
		program: "execname", ranks: "nprocs", args: [2]string{"argcnt", "arg"}, firstArg: 1,
		info: [3]string{"info_num", "info_key_", "info_val_"}, preput: [3]string{"preput_num", "preput_key_", "preput_val_"},
	}
	spawnKeys2 = spawnKeys{
		program: "subcmd", ranks: "maxprocs", args: [2]string{"argc", "argv"},
		info: [3]string{"infokeycount", "infokey", "infoval"}, preput: [3]string{"preputcount", "ppkey", "ppval"},
		preputFirst: true,
	}
)

// spawnOf decodes a spawn. In PMI-1 it has a block for each program; in PMI-2 a common part, then a part for each
// program that begins with subcmd.
func spawnOf(by world.Proc, q request) (world.Spawn, error) {
	parts, keys := q.blocks, &spawnKeys1
	if q.framed {
		parts, keys = splitAt(q.fields, "subcmd"), &spawnKeys2
		if n, err := q.number("ncmds", 1, maxEntries); err != nil || n != len(parts)-1 {
			return world.Spawn{}, malformed("a spawn with ncmds=%s and %d programs", printable(q.get("ncmds")), len(parts)-1)
		}
	}
	s := world.Spawn{By: by}
	for i, part := range parts {
		b, err := newBlock(part)
		if err == nil && i == 0 { // MPICH 4.0 and older repeat it in each
			s.Preput, err = b.pairs(keys.preput)
		}
		if err == nil && (i > 0 || !keys.preputFirst) {
			err = addApp(&s, b, keys)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// splitAt begins a new part at each field of that key.
func splitAt(f fields, key string) []fields {
	parts := []fields{nil}
	for i := range f {
		if f[i].key == key {
			parts = append(parts, nil)
		}
		last := &parts[len(parts)-1]
		*last = append(*last, f[i])
	}
	return parts
}

// addApp adds a program.
func addApp(s *world.Spawn, b block, keys *spawnKeys) error {
	args, err := b.list(keys.args[0], keys.args[1], keys.firstArg)
	if err != nil {
		return err
	}
	info, err := b.pairs(keys.info)
	if err != nil {
		return err
	}
	app := world.SpawnApp{Program: b[keys.program], Args: args}
	if app.Program == "" {
		return malformed("a spawn without the name of a program")
	}
	if app.NumRanks, err = b.number(keys.ranks, world.MaxSpawn-numRanks(*s)); err != nil {
		return err
	}
	for _, p := range info {
		applyInfo(&app, p)
	}
	s.Apps = append(s.Apps, app)
	return nil
}

func numRanks(s world.Spawn) (n int) {
	for i := range s.Apps {
		n += s.Apps[i].NumRanks
	}
	return n
}

// applyInfo applies a key of MPI_Info. The keys here are Hydra's; env is Open MPI's, NAME=VALUE one a line.
func applyInfo(app *world.SpawnApp, p world.Pair) {
	switch p.Key {
	case "path":
		app.Path = p.Value
	case "wdir":
		app.Dir = p.Value
	case "host", "hosts":
		app.Hosts = p.Value
	case "hostfile":
		app.HostFile = p.Value
	case "env":
		for line := range strings.SplitSeq(p.Value, "\n") {
			if world.IsVariable(line) {
				app.Env = append(app.Env, line)
			}
		}
	default:
		app.Info = append(app.Info, p)
	}
}

// block is the fields of a part of a spawn.
type block map[string]string

func newBlock(f fields) (block, error) {
	b := make(block, len(f))
	for _, p := range f {
		if _, twice := b[p.key]; twice {
			return nil, malformed("a spawn with %s twice", printable(p.key))
		}
		b[p.key] = p.value
	}
	return b, nil
}

// number returns a count up to a limit, 0 if it is missing.
func (b block) number(key string, limit int) (int, error) {
	text, ok := b[key]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > limit {
		return 0, malformed("a spawn with %s=%s, not a number from 0 to %d", key, printable(text), limit)
	}
	return n, nil
}

// list returns the values of name1, name2 … if from is 1, as many as the field count says.
func (b block) list(count, name string, from int) ([]string, error) {
	n, err := b.number(count, len(b))
	if err != nil {
		return nil, err
	}
	list := make([]string, n)
	for i := range list {
		key := name + strconv.Itoa(from+i)
		var ok bool
		if list[i], ok = b[key]; !ok {
			return nil, malformed("a spawn with %s=%d and without %s", count, n, key)
		}
	}
	return list, nil
}

// pairs returns as many pairs as the first of the names says, numbered from 0.
func (b block) pairs(names [3]string) ([]world.Pair, error) {
	k, err := b.list(names[0], names[1], 0)
	if err != nil {
		return nil, err
	}
	v, err := b.list(names[0], names[2], 0)
	if err != nil {
		return nil, err
	}
	var pairs []world.Pair
	for i := range k {
		pairs = append(pairs, world.Pair{Key: k[i], Value: v[i]})
	}
	return pairs, nil
}

// spawn has the launcher start a world. The reply comes when its ranks were started.
func (c *session) spawn(q request) (string, error) {
	spawn, err := spawnOf(c.p, q)
	if err != nil {
		return "", err
	}
	c.spawns++
	c.server.node.Spawn(spawn, func(name string, err error) {
		c.spawns--
		switch {
		case err != nil:
			c.replyLater(q.result(err))
		case q.framed:
			c.replyLater(q.text("rc", "0", "jobid", name, "nerrs", "0"))
		default:
			c.replyLater(q.text(append([]string{"rc", "0"}, errorCodes(numRanks(spawn))...)...))
		}
	})
	return "", nil
}

// errorCodes returns a 0 for each rank, or nothing if that is too long for a line of old clients: all are 0 then.
func errorCodes(ranks int) []string {
	if ranks == 0 || 2*ranks > replyMax-40 {
		return nil
	}
	return []string{"errcodes", strings.Repeat("0,", ranks-1) + "0"}
}
