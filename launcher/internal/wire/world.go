package wire

import (
	"slices"
	"unsafe"

	"gorun/rendezvous/world"
)

// A World is rendezvous/world's, which knows nothing of frames: these are its types with
// fields.
type (
	worldPart world.World
	worldApp  world.App
	procPart  world.Proc
	pairPart  world.Pair
	spawnPart world.Spawn
	spawnApp  world.SpawnApp
)

func asWorld(w *world.World) fielder { return (*worldPart)(w) }

func asPair(p *world.Pair) fielder { return (*pairPart)(p) }

func (w *worldPart) fields(c *coder) {
	text(c, 1, &w.Name)
	c.texts(2, &w.Hosts)
	foreign(c, 3, &w.Apps, func(a *world.App) fielder { return (*worldApp)(a) })
	c.part(8, &rankColumns{ranks: &w.Ranks})
	number(c, 5, &w.Universe)
	c.part(6, (*procPart)(&w.Parent))
	foreign(c, 7, &w.Preput, asPair)
	c.flag(9, &w.UniverseSet)
	text(c, 10, &w.MapBy)
	text(c, 11, &w.RankBy)
	text(c, 12, &w.BindTo)
}

func (a *worldApp) fields(c *coder) {
	number(c, 1, &a.NumRanks)
	c.texts(2, &a.Argv)
	text(c, 3, &a.Dir)
}

// rankColumns are the ranks of a world: a column for each of what they have, in which
// neighbours differ by little, and texts once, however many ranks have them. There may be
// thousands of ranks, of which thousands of nodes are told.
type rankColumns struct {
	ranks *[]world.Rank
	texts [2][]string // that were read
}

func (r *rankColumns) fields(c *coder) {
	if c.is(1, sized) {
		var jobs []int
		if c.packed(1, &jobs); c.err != nil || !c.take(len(jobs)*int(unsafe.Sizeof(world.Rank{}))) {
			return
		}
		*r.ranks = make([]world.Rank, len(jobs))
	}
	for i, of := range rankNumbers {
		r.column(c, i+1, of)
	}
	for i, of := range rankTexts {
		r.textColumn(c, len(rankNumbers)+1+2*i, &r.texts[i], of)
	}
}

// rankNumbers and rankTexts are what ranks have, in the order of the columns. The first one
// says how many ranks there are.
var (
	rankNumbers = [...]func(*world.Rank) *int{
		func(r *world.Rank) *int { return &r.Job },
		func(r *world.Rank) *int { return &r.App },
		func(r *world.Rank) *int { return &r.Host },
		func(r *world.Rank) *int { return &r.Node },
		func(r *world.Rank) *int { return &r.LocalRank },
		func(r *world.Rank) *int { return &r.NodeRank },
	}
	rankTexts = [...]func(*world.Rank) *string{
		func(r *world.Rank) *string { return &r.CPUs },
		func(r *world.Rank) *string { return &r.Locality },
	}
)

// column is what all ranks have of something; behind the first there is none where all have 0.
func (r *rankColumns) column(c *coder, num int, of func(*world.Rank) *int) {
	var values []int
	if !c.reading {
		for i := range *r.ranks {
			values = append(values, *of(&(*r.ranks)[i]))
		}
	}
	if num > 1 && !slices.ContainsFunc(values, func(v int) bool { return v != 0 }) {
		values = nil
	}
	c.packed(num, &values)
	c.giveBack(values)
	r.take(c, num, values, func(m *world.Rank, v int) bool { *of(m) = v; return true })
}

// textColumn is a list of texts, and a column of which of them each rank has. There is
// neither where all are empty.
func (r *rankColumns) textColumn(c *coder, num int, texts *[]string, of func(*world.Rank) *string) {
	var which []int
	if !c.reading {
		*texts, which = r.distinct(of)
	}
	c.texts(num, texts)
	c.packed(num+1, &which)
	c.giveBack(which)
	r.take(c, num+1, which, func(m *world.Rank, v int) bool {
		if v < 0 || v >= len(*texts) {
			return false
		}
		*of(m) = (*texts)[v]
		return true
	})
}

// giveBack makes room again that a column took, which nobody keeps.
func (c *coder) giveBack(values []int) {
	if c.reading {
		*c.room += len(values) * int(unsafe.Sizeof(0))
	}
}

// distinct are the different texts of all ranks, and which of them each has; none where all
// are empty.
func (r *rankColumns) distinct(of func(*world.Rank) *string) (texts []string, which []int) {
	known := make(map[string]int)
	for i := range *r.ranks {
		s := *of(&(*r.ranks)[i])
		n, is := known[s]
		if !is {
			n = len(texts)
			known[s], texts = n, append(texts, s)
		}
		which = append(which, n)
	}
	if len(texts) == 1 && texts[0] == "" {
		return nil, nil
	}
	return texts, which
}

// take gives ranks a column that was just read, if it is this one.
func (r *rankColumns) take(c *coder, num int, values []int, give func(m *world.Rank, v int) bool) {
	if !c.is(num, sized) || c.err != nil {
		return
	}
	if len(values) != len(*r.ranks) {
		c.err = errBroken
		return
	}
	for i, v := range values {
		if !give(&(*r.ranks)[i], v) {
			c.err = errBroken
			return
		}
	}
}

func (p *procPart) fields(c *coder) {
	text(c, 1, &p.World)
	number(c, 2, &p.Rank)
}

func (p *pairPart) fields(c *coder) {
	text(c, 1, &p.Key)
	text(c, 2, &p.Value)
}

func (s *spawnPart) fields(c *coder) {
	c.part(1, (*procPart)(&s.By))
	foreign(c, 2, &s.Apps, func(a *world.SpawnApp) fielder { return (*spawnApp)(a) })
	foreign(c, 3, &s.Preput, asPair)
}

func (a *spawnApp) fields(c *coder) {
	text(c, 1, &a.Program)
	text(c, 2, &a.Path)
	c.texts(3, &a.Args)
	number(c, 4, &a.NumRanks)
	text(c, 5, &a.Dir)
	c.texts(6, &a.Env)
	text(c, 7, &a.Hosts)
	text(c, 8, &a.HostFile)
	foreign(c, 9, &a.Info, asPair)
}

func (*Spawn) Type() Type { return TypeSpawn }

func (m *Spawn) fields(c *coder) {
	number(c, 1, &m.Call)
	c.part(2, (*spawnPart)(&m.Wish))
}

func (*Spawned) Type() Type { return TypeSpawned }

func (m *Spawned) fields(c *coder) {
	number(c, 1, &m.Call)
	text(c, 2, &m.World)
	text(c, 3, &m.Error)
}

func (*Grow) Type() Type { return TypeGrow }

func (m *Grow) fields(c *coder) {
	number(c, 1, &m.Number)
	c.part(2, (*worldPart)(&m.World))
	c.texts(3, &m.Common)
	parts(c, 4, &m.Programs)
	parts(c, 5, &m.Ranks)
	number(c, 6, &m.Call)
	c.texts(7, &m.Over)
}

func (*Grown) Type() Type { return TypeGrown }

func (m *Grown) fields(c *coder) {
	number(c, 1, &m.Number)
	parts(c, 2, &m.Ranks)
	text(c, 3, &m.Error)
	c.moment(4, &m.At)
}
