package pmix

import (
	"path/filepath"
	"slices"

	"gorun/rendezvous/world"
)

// What QUERY answers of the processes of a world: each node tells of its own.

// Attributes of QUERY.
const (
	keyProcesses      = "pmix.qry.ptable"
	keyLocalProcesses = "pmix.qry.lptable"
	keyNamespace      = "pmix.nspace"
	keyHostName       = "pmix.hname"
	keyGroupID        = "pmix.grp.id"
)

// States of processes (pmix_proc_state_t).
const (
	processPrepared   = 1
	processRunning    = 5
	processConnected  = 6
	processTerminated = 20
)

// processService tells another node of the processes of a world here.
//
//	question: name of the world
//	answer:   rank | process info, for each
const processService = "pmix.processes"

// processTables are the process infos of worlds, by name and rank.
type processTables map[string]map[int][]byte

// withProcesses calls with the tables that questions need, with the server locked: at once where
// they need none.
func (s *Server) withProcesses(q *request, queries []query, do func(processTables)) {
	tables := processTables{}
	for _, question := range queries {
		n := s.namespaceOf(q, question.qualifiers)
		if n != nil && (slices.Contains(question.keys, keyProcesses) || slices.Contains(question.keys, keyLocalProcesses)) {
			tables[n.world.Name] = map[int][]byte{}
		}
	}
	left := len(tables)
	if left == 0 {
		do(tables)
	}
	for name, table := range tables {
		n := s.spaces[name]
		var e encoder
		e.string(name)
		heard := func(node int, answer []byte, err error) {
			if err == nil {
				n.readProcesses(node, slices.Clone(answer), table)
			}
		}
		s.askAll(n.nodes, processService, e.b, heard, func() {
			if left--; left == 0 {
				do(tables)
			}
		})
	}
}

// readProcesses takes over what a node tells of its ranks.
func (n *namespace) readProcesses(node int, answer []byte, table map[int][]byte) {
	for d := (decoder{b: answer}); d.more(); {
		rank := int(d.uint32())
		before := d.b
		named := decoder{b: before}
		d.skip(typeProcInfo, 0)
		isOf := named.proc() == proc{n.world.Name, uint32(rank)}
		if d.err == nil && isOf && n.has(rank) && n.world.Ranks[rank].Node == node {
			table[rank] = before[:len(before)-len(d.b)]
		}
	}
}

// answerProcesses tells of the processes here.
func (s *Server) answerProcesses(_ int, d *decoder, reply func(answer []byte)) {
	var e encoder
	if n := s.spaces[d.string()]; n != nil {
		for _, rank := range n.local {
			e.uint32(uint32(rank))
			n.appendProcess(&e, rank, s.cfg.Launcher.PID(world.Proc{World: n.world.Name, Rank: rank}))
		}
	}
	if d.err == nil {
		reply(e.b)
	}
}

// appendProcess appends what is known of a rank's process.
func (n *namespace) appendProcess(e *encoder, rank, pid int) {
	r, m, state := n.world.Ranks[rank], n.member(rank), uint8(processRunning)
	switch {
	case m.gone:
		state = processTerminated
	case pid == 0:
		state = processPrepared
	case len(m.conns) > 0:
		state = processConnected
	}
	e.proc(proc{n.world.Name, uint32(rank)})
	e.string(n.world.Hosts[r.Host])
	e.string(n.program(r.App))
	e.uint16(uint16(typeUint32))
	e.uint32(uint32(pid))
	e.uint8(state)
}

// program is the path of a program, as far as it is known here.
func (n *namespace) program(app int) string {
	a := n.world.Apps[app]
	if len(a.Argv) == 0 {
		return ""
	}
	if name := a.Argv[0]; filepath.Base(name) == name || filepath.IsAbs(name) {
		return name
	}
	dir, _ := filepath.Abs(a.Dir)
	return filepath.Join(dir, a.Argv[0])
}

// value is the table of a world, of one host's ranks alone if that is not "".
func (t processTables) value(n *namespace, host string) value {
	var rows [][]byte
	for rank, r := range n.world.Ranks {
		if row := t[n.world.Name][rank]; row != nil && (host == "" || n.world.Hosts[r.Host] == host) {
			rows = append(rows, row)
		}
	}
	var e encoder
	typ := array(&e, typeProcInfo, rows, func(row []byte) { e.b = append(e.b, row...) })
	return value{typ, e.b}
}
