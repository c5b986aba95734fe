package wire

import "gorun/rendezvous/world"

// A World is rendezvous/world's, which knows nothing of frames: these are its types with
// fields.
type (
	worldPart world.World
	worldApp  world.App
	worldRank world.Rank
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
	foreign(c, 4, &w.Ranks, func(r *world.Rank) fielder { return (*worldRank)(r) })
	number(c, 5, &w.Universe)
	c.part(6, (*procPart)(&w.Parent))
	foreign(c, 7, &w.Preput, asPair)
}

func (a *worldApp) fields(c *coder) {
	number(c, 1, &a.NumRanks)
	c.texts(2, &a.Argv)
	text(c, 3, &a.Dir)
}

func (r *worldRank) fields(c *coder) {
	number(c, 1, &r.Job)
	number(c, 2, &r.App)
	number(c, 3, &r.Host)
	number(c, 4, &r.Node)
	number(c, 5, &r.LocalRank)
	number(c, 6, &r.NodeRank)
	text(c, 7, &r.CPUs)
	text(c, 8, &r.Locality)
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
