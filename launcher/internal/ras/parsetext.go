package ras

import (
	"errors"
	"strconv"
	"strings"
)

// ParseText reads the status as text, from NCCL 2.24 and later. It only counts communicators without problems.
func ParseText(text []byte) (Status, error) {
	p := textParser{}
	for line := range strings.Lines(string(text)) {
		p.line(strings.TrimRight(line, "\r\n"))
		if len(p.s.Communicators) > maxCommunicators || p.rows > maxRanks {
			return p.s, errors.New("the answer of NCCL's RAS port is longer than it can be")
		}
	}
	if p.s.Version == "" {
		return p.s, errors.New("the answer of NCCL's RAS port does not begin with a version")
	}
	return p.s, nil
}

// textParser has the parser's state between lines.
type textParser struct {
	s       Status
	sizes   []int         // sizes of the communicators, by group
	comm    *Communicator // the subject of the current lines
	op      string        // the operation whose counts differ
	list    *[]Process    // the destination of the current lines
	missing bool          // the lines are about missing ranks
	rows    int
}

func (p *textParser) line(line string) {
	body, indented := strings.CutPrefix(line, "  ")
	switch {
	case strings.HasPrefix(line, "NCCL version ") && p.s.Version == "":
		version, _, _ := strings.Cut(line[len("NCCL version "):], " ")
		p.s.Version = short(version)
	case strings.HasPrefix(line, "#"):
		p.communicator(line)
	case line == "INCOMPLETE":
		p.list, p.comm = &p.s.Missing, nil
	case line == "DEAD":
		p.list, p.comm = &p.s.Dead, nil
	case line == "" || !indented:
		p.list = nil
	case p.comm != nil:
		p.detail(strings.TrimLeft(body, " "))
	case p.list != nil:
		p.process(body)
	default:
		p.row(body)
	}
}

// row reads a group: its number, communicators, nodes, ranks per node, ranks per communicator, ranks, status, errors.
func (p *textParser) row(line string) {
	f := strings.Fields(line)
	if len(f) < 8 {
		return
	}
	group, err := strconv.Atoi(f[0])
	size, err2 := strconv.Atoi(f[4])
	if err == nil && err2 == nil && group == len(p.sizes) && group < maxCommunicators {
		p.sizes = append(p.sizes, min(max(size, 0), maxRanks))
	}
}

// communicator reads "#0-0 (1234567890abcdef) MISMATCH". A communicator may occur several times.
func (p *textParser) communicator(line string) {
	p.comm, p.list, p.op, p.missing = nil, nil, "", false
	number, rest, ok := strings.Cut(line[1:], " (")
	hash, what, ok2 := strings.Cut(rest, ") ")
	if !ok || !ok2 {
		return
	}
	hash = "0x" + short(strings.TrimLeft(hash, "0"))
	p.missing = what == "INCOMPLETE"
	for i := range p.s.Communicators {
		if p.s.Communicators[i].Hash == hash {
			p.comm = &p.s.Communicators[i]
			return
		}
	}
	c := Communicator{Hash: hash, Partial: true}
	group, _, _ := strings.Cut(number, "-")
	if n, err := strconv.Atoi(group); err == nil && n >= 0 && n < len(p.sizes) {
		c.Size = p.sizes[n]
	}
	p.s.Communicators = append(p.s.Communicators, c)
	p.comm = &p.s.Communicators[len(p.s.Communicators)-1]
}

// detail reads a line about the current communicator.
func (p *textParser) detail(line string) {
	p.rows++
	if op, ok := strings.CutPrefix(line, "Communicator ranks have different "); ok {
		p.op = ""
		if op, isCount := strings.CutSuffix(op, " operation counts"); isCount {
			p.op = short(op)
		}
		return
	}
	number, rest, ok := strings.Cut(strings.TrimPrefix(line, "Rank "), " ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 {
		return
	}
	if !strings.HasPrefix(line, "Rank ") {
		if words, ok := strings.CutPrefix(rest, "ranks "); ok {
			p.tally(n, words)
		}
		return
	}
	what, location, _ := strings.Cut(" "+rest, " -- ")
	r := p.rank(n, location)
	what = strings.TrimPrefix(what, " ")
	switch {
	case strings.HasPrefix(what, "reported "):
		r.Message = short(strings.ToLower(what[len("reported "):]))
	case strings.HasPrefix(what, "has status "):
		r.Message = short(what[len("has status "):])
	case p.op != "":
		if count, ok := countOf(strings.TrimPrefix(what, "has ")); ok {
			r.Counts[p.op] = count
		}
	case p.missing:
		r.Missing = true
	}
}

// tally reads "have launched up to operation 42" for several ranks.
func (p *textParser) tally(ranks int, words string) {
	count, ok := countOf(strings.TrimPrefix(words, "have "))
	if p.op != "" && ok {
		p.comm.Tallies = append(p.comm.Tallies, Tally{Op: p.op, Count: count, Ranks: ranks})
	}
}

func countOf(text string) (uint64, bool) {
	if text == "not launched any operations" {
		return 0, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "launched up to operation "), 10, 64)
	return n, err == nil
}

// rank returns the communicator's rank n, adding it if needed. location reads "GPU 3 managed by process 29778 on node
// 127.0.0.1".
func (p *textParser) rank(n int, location string) *Rank {
	for i := range p.comm.Ranks {
		if p.comm.Ranks[i].Rank == n {
			return &p.comm.Ranks[i]
		}
	}
	r := Rank{Rank: n, World: -1, Counts: map[string]uint64{}}
	if _, rest, ok := strings.Cut(location, " managed by process "); ok {
		pid, host, _ := strings.Cut(rest, " on node ")
		r.PID, _ = strconv.Atoi(pid)
		r.Host = short(host)
	}
	p.comm.Ranks = append(p.comm.Ranks, r)
	return &p.comm.Ranks[len(p.comm.Ranks)-1]
}

// process reads "Process 29785 on node 127.0.0.1 managing GPU 2".
func (p *textParser) process(line string) {
	p.rows++
	rest, ok := strings.CutPrefix(line, "Process ")
	if !ok {
		return
	}
	pid, rest, _ := strings.Cut(rest, " on node ")
	host, gpus, _ := strings.Cut(rest, " managing GPU")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return
	}
	*p.list = append(*p.list,
		Process{PID: n, Host: short(host), GPUs: short(strings.TrimPrefix(strings.TrimPrefix(gpus, "s"), " "))})
}
