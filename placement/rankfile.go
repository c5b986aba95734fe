package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// RankFile gives the placement of each rank of a job, in mpirun's file format:
//
//	# a comment
//	rank 0=node1 slot=0-3        cores, numbered over the node
//	rank 1=node1 slot=1:0-2,5    package 1, its cores 0 to 2 and 5
//	rank 2=+n1 slot=0:*;1:0      all of package 0 and a core of package 1, on the second node
//
// Cores and packages are numbered in hwloc's logical order among the allowed ones.
type RankFile struct {
	Lines []RankLine // by rank
	From  string     // source for messages: "--rankfile ranks.txt"
}

// RankLine is the placement of one rank.
type RankLine struct {
	Rank  int
	Host  string // a name, or "+n1" for the second machine
	Slots string
	Line  int // line number in the file, from 1
}

// ParseRankFile parses a rank file; from is its source for messages. Every rank from 0 to the
// highest must have one line.
func ParseRankFile(from, text string) (*RankFile, error) {
	file := &RankFile{From: from}
	seen := make(map[int]int)
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		entry, err := parseRankLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", from, i+1, err)
		}
		entry.Line = i + 1
		if first, again := seen[entry.Rank]; again {
			return nil, fmt.Errorf("%s line %d: rank %d already has a place in line %d", from, i+1, entry.Rank, first)
		}
		seen[entry.Rank] = i + 1
		file.Lines = append(file.Lines, entry)
	}
	slices.SortFunc(file.Lines, func(a, b RankLine) int { return cmp.Compare(a.Rank, b.Rank) })
	for rank := range file.Lines {
		if file.Lines[rank].Rank != rank {
			return nil, fmt.Errorf("%s: rank %d has no line; the file has lines for %d ranks, up to rank %d",
				from, rank, len(file.Lines), file.Lines[len(file.Lines)-1].Rank)
		}
	}
	if len(file.Lines) == 0 {
		return nil, fmt.Errorf("%s: the file has no line `rank 0=HOST slot=CORES`", from)
	}
	return file, nil
}

// parseRankLine parses "rank 0=node1 slot=0-3". Blanks around "=" are allowed.
func parseRankLine(line string) (RankLine, error) {
	words := strings.Fields(strings.ReplaceAll(line, "=", " = "))
	if len(words) != 7 || words[0] != "rank" || words[2] != "=" || words[5] != "=" || words[4] != "slot" &&
		words[4] != "slots" {
		return RankLine{}, fmt.Errorf("%q is not of the form `rank N=HOST slot=CORES`", strings.TrimSpace(line))
	}
	rank, err := strconv.Atoi(words[1])
	if err != nil || rank < 0 || rank > maxNumber {
		return RankLine{}, fmt.Errorf("%q is not a rank", words[1])
	}
	return RankLine{Rank: rank, Host: words[3], Slots: words[6]}, nil
}

// layout places the ranks according to the file.
func (f *RankFile) layout(req Request, machines []Machine) (Layout, error) {
	if err := errors.Join(req.checkConflicts(), req.check(machines)); err != nil {
		return Layout{}, err
	}
	if req.Ranks > 0 && req.Ranks != len(f.Lines) {
		return Layout{}, fmt.Errorf("%s: %s has places for %s", req.ranksOption(), f.From, plural(len(f.Lines), "rank"))
	}
	l := Layout{PerNode: make([]int, len(machines)), Reason: plural(len(f.Lines), "rank") + ": " + f.From}
	nodes := make([]mapping, len(machines))
	for _, line := range f.Lines {
		rank, err := f.place(line, req, machines, nodes)
		if err != nil {
			return Layout{}, fmt.Errorf("%s line %d, rank %d: %w", f.From, line.Line, line.Rank, err)
		}
		rank.LocalRank = l.PerNode[rank.Node]
		l.PerNode[rank.Node]++
		l.Ranks = append(l.Ranks, rank)
	}
	for node, m := range machines {
		if most := req.maxSlots(node); most > 0 && l.PerNode[node] > most {
			return Layout{}, fmt.Errorf("%s: %s max-slots=%d of %s allows", f.From, areMore(l.PerNode[node]), most,
				req.nodeName(node))
		}
		if err := req.checkGPUs(node, l.PerNode[node], m); err != nil {
			return Layout{}, err
		}
	}
	req.pairGPUs(l.Ranks, machines)
	if err := req.finish(&l, nodes, machines); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// place resolves one rank's machine and CPUs.
func (f *RankFile) place(line RankLine, req Request, machines []Machine, nodes []mapping) (Rank, error) {
	node, err := hostNumber(line.Host, req.Hosts, len(machines))
	if err != nil {
		return Rank{}, err
	}
	if nodes[node].tree == nil {
		if machines[node].Topology == nil {
			return Rank{}, fmt.Errorf("the topology of %s is unknown", req.nodeName(node))
		}
		nodes[node].tree = newTree(req.nodeName(node), machines[node])
	}
	cpus, err := nodes[node].tree.slotCPUs(line.Slots)
	return Rank{Node: node, CPUs: cpus, Reason: fmt.Sprintf("%s line %d", f.From, line.Line)}, err
}

// hostNumber returns the index of the machine with a name, or of "+n1".
func hostNumber(host string, hosts []string, machines int) (int, error) {
	if number, relative := strings.CutPrefix(host, "+n"); relative {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n >= machines {
			return 0, fmt.Errorf("%s is not one of the %s (+n0 is the first)", host, plural(machines, "node"))
		}
		return n, nil
	}
	if i := slices.Index(hosts, host); i >= 0 {
		return i, nil
	}
	if machines == 1 && host == "localhost" {
		return 0, nil
	}
	return 0, fmt.Errorf("host %q is not in the job: %s; +n0 is the first", host,
		cmp.Or(strings.Join(hosts, ", "), "their names are unknown"))
}

// slotCPUs parses a list of cores: "0-3,8" of the node, "1:0-2,5" of a package, "0:*", "*", or
// several of these separated by semicolons.
func (t *tree) slotCPUs(slots string) (CPUSet, error) {
	var cpus CPUSet
	for _, item := range strings.Split(slots, ";") {
		cores, name := t.objects(ByCore), "node"
		for _, part := range strings.Split(item, ",") {
			if number, list, ok := strings.Cut(part, ":"); ok {
				packages := t.objects(ByPackage)
				n, err := strconv.Atoi(strings.TrimLeft(number, "sS"))
				if err != nil || n < 0 || n >= len(packages) {
					return CPUSet{}, fmt.Errorf("slot=%s: package %q is not one of the %d of %s (0-%d)", slots, number, len(packages),
						t.name, len(packages)-1)
				}
				cores, name, part = coreSets(t.coresIn(packages[n])), fmt.Sprintf("package %d", n), strings.TrimLeft(list, "cC")
			}
			set, err := pick(cores, part)
			if err != nil {
				return CPUSet{}, fmt.Errorf("slot=%s: %w of %s", slots, err, name)
			}
			cpus = cpus.Union(set)
		}
	}
	return cpus, nil
}

// pick returns the CPUs of a range of cores, or of all ("*").
func pick(cores []CPUSet, part string) (CPUSet, error) {
	if part == "*" {
		return CPUSet{}.Union(cores...), nil
	}
	first, last, err := parseRange(part)
	if err != nil || last >= len(cores) {
		return CPUSet{}, fmt.Errorf("core %q is not one of the %d cores (0-%d)", part, len(cores), len(cores)-1)
	}
	return CPUSet{}.Union(cores[first : last+1]...), nil
}

// RankFile formats a layout as a rank file for [ParseRankFile] or mpirun. A rank that is not bound
// gets all cores of its node. It fails if a rank's CPUs are not whole cores, or if the topology of
// its machine is not known.
func (l Layout) RankFile(hosts []string, machines []Machine) (string, error) {
	var b strings.Builder
	trees := make([]*tree, len(machines))
	for rank, r := range l.Ranks {
		if machines[r.Node].Topology == nil || r.Node >= len(hosts) {
			return "", fmt.Errorf("rank %d: the topology or the name of node %d is unknown", rank, r.Node)
		}
		if trees[r.Node] == nil {
			trees[r.Node] = newTree(numbered(r.Node), machines[r.Node])
		}
		var numbers []int
		var covered CPUSet
		for i, c := range trees[r.Node].cores {
			if r.CPUs.Len() == 0 || c.cpus.SubsetOf(r.CPUs) {
				numbers = append(numbers, i)
				covered = covered.Union(c.cpus)
			}
		}
		if r.CPUs.Len() > 0 && !covered.Equal(r.CPUs) {
			return "", fmt.Errorf("rank %d: its CPUs %s are not whole cores, and rank files name only whole cores", rank, r.CPUs)
		}
		fmt.Fprintf(&b, "rank %d=%s slot=%s\n", rank, hosts[r.Node], NewCPUSet(numbers...))
	}
	return b.String(), nil
}
