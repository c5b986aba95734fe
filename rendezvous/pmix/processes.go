package pmix

import (
	"path/filepath"
	"slices"
)

// QUERY's tables of the processes of a world, of which each node has its own ranks.

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

// processService returns to other nodes the processes of a world on this one.
//
//	request: name of the world
//	reply:   rank | process info, for each
const processService = "pmix.processes"

// processTables are encoded process infos, by world and rank.
type processTables map[string]map[int][]byte

// withProcesses calls do with the tables that queries need, at once if they need none. Both are called with the lock
// held.
func (s *Server) withProcesses(q *request, queries []query, do func(processTables)) {
	tables := processTables{}
	for _, query := range queries {
		n := s.namespaceOf(q, query.qualifiers)
		if n != nil && (slices.Contains(query.keys, keyProcesses) || slices.Contains(query.keys, keyLocalProcesses)) {
			tables[n.Name] = map[int][]byte{}
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
		each := func(node int, reply []byte, err error) {
			if err == nil {
				n.readProcesses(node, slices.Clone(reply), table)
			}
		}
		s.node.RequestAll(n.Nodes, processService, e.b, each, func() {
			if left--; left == 0 {
				do(tables)
			}
		})
	}
}

// readProcesses adds the processes of a node to a table.
func (n *namespace) readProcesses(node int, reply []byte, table map[int][]byte) {
	for d := (decoder{b: reply}); d.more(); {
		rank := int(d.uint32())
		before := d.b
		named := decoder{b: before}
		d.skip(typeProcInfo, 0)
		isOf := named.proc() == n.Proc(rank)
		if d.err == nil && isOf && n.Has(rank) && n.Ranks[rank].Node == node {
			table[rank] = before[:len(before)-len(d.b)]
		}
	}
}

// serveProcesses answers another node.
func (s *Server) serveProcesses(_ int, d *decoder, reply func(body []byte)) {
	var e encoder
	if n := s.spaces[d.string()]; n != nil {
		for _, rank := range n.Local {
			e.uint32(uint32(rank))
			n.appendProcess(&e, rank, s.cfg.Launcher.PID(n.Proc(rank)))
		}
	}
	if d.err == nil {
		reply(e.b)
	}
}

// appendProcess appends the process info of a rank.
func (n *namespace) appendProcess(e *encoder, rank, pid int) {
	r, m, state := n.Ranks[rank], n.member(rank), uint8(processRunning)
	switch {
	case m.processEnded:
		state = processTerminated
	case pid == 0:
		state = processPrepared
	case len(m.conns) > 0:
		state = processConnected
	}
	e.proc(n.Proc(rank))
	e.string(n.Hosts[r.Host])
	e.string(n.program(r.App))
	e.uint16(uint16(typeUint32))
	e.uint32(uint32(pid))
	e.uint8(state)
}

// program returns the path of a program, as far as it is known.
func (n *namespace) program(app int) string {
	a := n.Apps[app]
	if len(a.Argv) == 0 {
		return ""
	}
	if name := a.Argv[0]; filepath.Base(name) == name || filepath.IsAbs(name) {
		return name
	}
	dir, _ := filepath.Abs(a.Dir)
	return filepath.Join(dir, a.Argv[0])
}

// value returns the table of a world, or of its ranks on one host unless that is "".
func (t processTables) value(n *namespace, host string) value {
	var rows [][]byte
	for rank, r := range n.Ranks {
		if row := t[n.Name][rank]; row != nil && (host == "" || n.Hosts[r.Host] == host) {
			rows = append(rows, row)
		}
	}
	var e encoder
	typ := array(&e, typeProcInfo, rows, func(row []byte) { e.b = append(e.b, row...) })
	return value{typ, e.b}
}
