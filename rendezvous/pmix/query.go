package pmix

import (
	"maps"
	"slices"
	"strings"
)

// query serves QUERY: questions about the job.
func (s *Server) query(q *request) error {
	n := q.body.oneSize()
	var queries []query
	if n > 0 {
		q.body.expect(n)
	}
	for range n {
		queries = append(queries, q.body.query())
	}
	if q.body.err != nil {
		return q.body.err
	}
	s.lock()
	defer s.unlock()
	var answers []info
	missing := 0
	for _, question := range queries {
		for _, key := range question.keys {
			if v, ok := s.lookInto(q, key, question.qualifiers); ok {
				answers = append(answers, info{key: key, value: v})
			} else {
				missing++
			}
		}
	}
	var e encoder
	switch {
	case len(answers) == 0:
		e.oneStatus(statusNotSupported)
	case missing > 0:
		e.oneStatus(statusPartialSuccess)
	default:
		e.oneStatus(statusSuccess)
	}
	e.infoList(answers)
	q.reply(e.b)
	return nil
}

// lookInto answers one question.
func (s *Server) lookInto(q *request, key string, qualifiers []info) (value, bool) {
	switch key {
	case "pmix.qry.ns":
		return stringValue(strings.Join(slices.Sorted(maps.Keys(s.spaces)), ",")), true
	case "pmix.qry.psetnum": // sets of processes that have names: there are none
		return sizeValue(0), true
	case "pmix.qry.psets":
		return stringValue(""), true
	}
	n := q.conn.space
	if name, ok := find(qualifiers, "pmix.nspace"); ok {
		text, _ := name.string()
		if n = s.spaces[text]; n == nil {
			return value{}, false
		}
	}
	if v, ok := find(n.jobInfos(), key); ok {
		return v, true
	}
	if n == q.conn.space {
		return find(n.hostInfos(n.world.Ranks[q.from().Rank].Host), key)
	}
	return value{}, false
}
