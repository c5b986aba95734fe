package pmi

import (
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// spawnOf is the wish in the blocks of a PMI-1 spawn.
func spawnOf(by world.Proc, blocks []fields) (world.Spawn, error) {
	s := world.Spawn{By: by}
	for i, f := range blocks {
		b, err := newBlock(f)
		if err != nil {
			return s, err
		}
		if i == 0 { // MPICH 4.0 and older repeat it in each
			if s.Preput, err = b.pairs("preput_num", "preput_key_", "preput_val_"); err != nil {
				return s, err
			}
		}
		args, err := b.list("argcnt", "arg", 1)
		if err != nil {
			return s, err
		}
		info, err := b.pairs("info_num", "info_key_", "info_val_")
		if err != nil {
			return s, err
		}
		if err = addApp(&s, b, "execname", "nprocs", args, info); err != nil {
			return s, err
		}
	}
	return s, nil
}

// spawnOfFrame is the wish in a spawn of PMI-2: what holds for all, then a part for each
// program, which begins with subcmd.
func spawnOfFrame(by world.Proc, f fields) (world.Spawn, error) {
	s := world.Spawn{By: by}
	parts := splitAt(f, "subcmd")
	head, err := newBlock(parts[0])
	if err != nil {
		return s, err
	}
	if s.Preput, err = head.pairs("preputcount", "ppkey", "ppval"); err != nil {
		return s, err
	}
	if n, err := f.number("ncmds", 1, maxEntries); err != nil || n != len(parts)-1 {
		return s, malformed("a spawn with ncmds=%s and %d programs", printable(f.get("ncmds")), len(parts)-1)
	}
	for _, part := range parts[1:] {
		b, err := newBlock(part)
		if err != nil {
			return s, err
		}
		args, err := b.list("argc", "argv", 0)
		if err != nil {
			return s, err
		}
		info, err := b.pairs("infokeycount", "infokey", "infoval")
		if err != nil {
			return s, err
		}
		if err = addApp(&s, b, "subcmd", "maxprocs", args, info); err != nil {
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

// addApp adds a program with what the caller said about it.
func addApp(s *world.Spawn, b block, program, ranks string, args []string, info []world.Pair) error {
	app := world.SpawnApp{Program: b[program], Args: args}
	if app.Program == "" {
		return malformed("a spawn without the name of a program")
	}
	total := 0
	for i := range s.Apps {
		total += s.Apps[i].NumRanks
	}
	var err error
	if app.NumRanks, err = b.number(ranks, world.MaxSpawn-total); err != nil {
		return err
	}
	for _, p := range info {
		inform(&app, p)
	}
	s.Apps = append(s.Apps, app)
	return nil
}

// inform takes a key of MPI_Info. Those that are named here are as Hydra has them, and
// env as Open MPI: NAME=VALUE, one a line.
func inform(app *world.SpawnApp, p world.Pair) {
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
			return nil, malformed("a spawn that says %s twice", printable(p.key))
		}
		b[p.key] = p.value
	}
	return b, nil
}

// number gives a count up to a limit; 0 where it is missing.
func (b block) number(key string, limit int) (int, error) {
	text, ok := b[key]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > limit {
		return 0, malformed("a spawn with %s=%s, which is no number from 0 to %d", key, printable(text), limit)
	}
	return n, nil
}

// list gives as many values as count says: those of name1, name2 … if they are counted
// from 1.
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

// pairs gives as many pairs as count says, which are counted from 0.
func (b block) pairs(count, keys, values string) ([]world.Pair, error) {
	k, err := b.list(count, keys, 0)
	if err != nil {
		return nil, err
	}
	v, err := b.list(count, values, 0)
	if err != nil {
		return nil, err
	}
	var pairs []world.Pair
	for i := range k {
		pairs = append(pairs, world.Pair{Key: k[i], Value: v[i]})
	}
	return pairs, nil
}

// spawn1 is a spawn by PMI-1. The answer comes when the ranks were started.
func (c *session) spawn1(blocks []fields) error {
	if !c.began || c.in.framed {
		return malformed("spawn before init for PMI-1")
	}
	wish, err := spawnOf(c.p, blocks)
	if err != nil {
		return err
	}
	return c.spawn(wish, func(_ string, err error) string {
		if err != nil {
			return "cmd=spawn_result rc=-1 msg=" + word(err.Error()) + "\n"
		}
		return spawnResult(wish)
	})
}

// spawnResult has an error code, 0, for each rank, unless that is longer than old clients'
// lines: without any all are 0.
func spawnResult(wish world.Spawn) string {
	n := 0
	for i := range wish.Apps {
		n += wish.Apps[i].NumRanks
	}
	if n == 0 || 2*n > replyMax-40 {
		return "cmd=spawn_result rc=0\n"
	}
	return "cmd=spawn_result rc=0 errcodes=" + strings.Repeat("0,", n-1) + "0\n"
}

// spawn2 is a spawn by PMI-2.
func (c *session) spawn2(f fields) error {
	wish, err := spawnOfFrame(c.p, f)
	if err != nil {
		return err
	}
	return c.spawn(wish, func(name string, err error) string {
		if err != nil {
			return answerTo(f, "rc", "-1", "errmsg", word(err.Error()))
		}
		return answerTo(f, "rc", "0", "jobid", name, "nerrs", "0")
	})
}

// spawn asks the launcher. A client's own error says nothing of why there are no ranks.
func (c *session) spawn(wish world.Spawn, text func(name string, err error) string) error {
	answer, err := c.later()
	if err != nil {
		return err
	}
	answer = c.counted(&c.spawns, answer)
	l := c.server.cfg.Launcher
	l.Spawn(wish, func(name string, err error) {
		if err != nil {
			l.Say(c.p, "MPI_Comm_spawn: "+err.Error())
		}
		answer(text(name, err))
	})
	return nil
}
