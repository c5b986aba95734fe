package pmix

import (
	"maps"
	"slices"
	"strings"
)

// query serves QUERY, about the job.
func (s *Server) query(q *request, d *decoder) func() status {
	queries := listed(d, d.query)
	return func() status {
		s.withProcesses(q, queries, func(tables processTables) { s.replyQueries(q, queries, tables) })
		return replied
	}
}

func (s *Server) replyQueries(q *request, queries []query, tables processTables) {
	var answers []info
	code := statusSuccess
	for _, query := range queries {
		for _, key := range query.keys {
			if v, ok := s.answer(q, key, query.qualifiers, tables); ok {
				answers = append(answers, attr(key, v))
			} else {
				code = statusPartialSuccess
			}
		}
	}
	if len(answers) == 0 {
		code = statusNotSupported
	}
	var e encoder
	e.oneStatus(code)
	e.infoList(answers)
	q.reply(e.b)
}

// spawnSupport are the attributes of a spawned program that have an effect.
var spawnSupport = strings.Join([]string{
	keyHosts, keyHostFile, keyAddHosts, keyAddHostFile, keyWorkDir, keySetVariable, keyAddVariable,
}, ",")

// answer returns the value of a key of a query.
func (s *Server) answer(q *request, key string, qualifiers []info, tables processTables) (value, bool) {
	n := s.namespaceOf(q, qualifiers)
	if n == nil {
		return value{}, false
	}
	switch key {
	case keyProcesses:
		return tables.value(n, ""), true
	case keyLocalProcesses:
		host := n.Hosts[max(0, s.hostOf(n, q))]
		if name, ok := find(qualifiers, keyHostName); ok {
			host, _ = name.string()
		}
		return tables.value(n, host), slices.Contains(n.Hosts, host)
	case "pmix.qry.nsinfo":
		_, one := find(qualifiers, keyNamespace)
		return s.namespaceInfos(n, one), true
	case "pmix.qry.spawn":
		return valueOf(spawnSupport), true
	case "pmix.qry.debug": // none: debuggers attach through gorun
		return valueOf(""), true
	case "pmix.qry.pgrpnum":
		return valueOf(len(q.member.groups)), true
	case "pmix.qry.pgrp":
		return valueOf(strings.Join(slices.Sorted(maps.Keys(q.member.groups)), ",")), true
	case "pmix.qry.pgrpmems":
		name, _ := find(qualifiers, keyGroupID)
		text, _ := name.string()
		members := q.member.groups[text]
		return valueOf(s.expand(members)), members != nil
	case "pmix.qry.ns":
		return valueOf(strings.Join(slices.Sorted(maps.Keys(s.spaces)), ",")), true
	case "pmix.qry.psetnum": // there are no named sets of processes
		return valueOf(0), true
	case "pmix.qry.psets":
		return valueOf(""), true
	}
	if v, ok := find(n.jobInfos(), key); ok {
		return v, true
	}
	if n == q.space {
		return find(n.hostInfos(n.Ranks[q.proc.Rank].Host), key)
	}
	return value{}, false
}

// namespaceOf returns the world that a query is about, nil if none exists of that name.
func (s *Server) namespaceOf(q *request, qualifiers []info) *namespace {
	name, ok := find(qualifiers, keyNamespace)
	if !ok {
		return q.space
	}
	text, _ := name.string()
	return s.spaces[text]
}

// namespaceInfos describes the worlds of the job, or only n: for each an array of its name, its command line, its size,
// and an array for each rank.
func (s *Server) namespaceInfos(n *namespace, one bool) value {
	var worlds []info
	for _, name := range slices.Sorted(maps.Keys(s.spaces)) {
		if w := s.spaces[name]; !one || w == n {
			worlds = append(worlds, attr("pmix.job.arr", w.infos()))
		}
	}
	return valueOf(worlds)
}

func (n *namespace) infos() []info {
	var lines []string
	for _, app := range n.Apps {
		lines = append(lines, strings.Join(app.Argv, " "))
	}
	infos := []info{
		attr(keyNamespace, n.Name),
		attr("pmix.cmd.line", strings.Join(lines, " : ")),
		attr("pmix.job.size", uint32(len(n.Ranks))),
	}
	for rank, r := range n.Ranks {
		infos = append(infos, attr("pmix.pdata", []info{
			attr("pmix.rank", procRank(rank)),
			attr(keyHostName, n.Hosts[r.Host]),
			attr("pmix.lrank", uint16(r.LocalRank)),
		}))
	}
	return infos
}
