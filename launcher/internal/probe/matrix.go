package probe

import (
	"fmt"
	"strings"
	"time"
)

// allPairs is up to how many nodes each one dials every other one; of more, a node
// dials those that are 1, 2, 4, 8 … after it, so that the cost stays N log N.
const allPairs = 64

// Partners returns which other nodes of n a node dials for a Matrix.
func Partners(n, node int) (partners []int) {
	if n <= allPairs {
		for i := range n {
			if i != node {
				partners = append(partners, i)
			}
		}
		return partners
	}
	for step := 1; step < n; step *= 2 {
		partners = append(partners, (node+step)%n)
	}
	return partners
}

// Likely returns the addresses of a node that are tried where nothing is known of the
// way to it: its most plausible ones, or those that the user named.
func Likely(n Node, wish Options) (addrs []Candidate) {
	nodes := []Node{n}
	order := Order(nodes, wish)
	for _, index := range order[:FirstTry(nodes, order)] {
		addrs = append(addrs, n.Candidates[index])
	}
	return addrs
}

// Matrix says which nodes reach which.
type Matrix struct {
	Names []string
	// Answers has, for every node, what became of dialing its partners, by their
	// numbers: the answer with the shortest round trip, or the last problem.
	Answers []map[int]Result
}

// Add takes an answer of a node that dialed another.
func (m *Matrix) Add(from, to int, a Result) {
	for len(m.Answers) <= from {
		m.Answers = append(m.Answers, map[int]Result{})
	}
	old, known := m.Answers[from][to]
	if !known || a.OK() && (!old.OK() || a.RTT < old.RTT) {
		m.Answers[from][to] = a
	}
}

// Summary says in a line how many pairs were tried and which way is the slowest.
func (m *Matrix) Summary() string {
	tried, reached, from, to := 0, 0, 0, 0
	var slowest time.Duration
	for i, answers := range m.Answers {
		for j := range m.Names {
			a, dialed := answers[j]
			if dialed {
				tried++
			}
			if a.OK() {
				reached++
			}
			if a.RTT > slowest {
				slowest, from, to = a.RTT, i, j
			}
		}
	}
	text := fmt.Sprintf("%d of %d ways between %d hosts work", reached, tried, len(m.Names))
	if reached > 0 {
		text += fmt.Sprintf("; the slowest is from %s to %s: %s", m.Names[from], m.Names[to], milliseconds(slowest))
	}
	return text
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// Grid draws the matrix with round trips in milliseconds: who dials stands on the
// left. "-" is a way that does not work, "." one that was not tried. More than most
// nodes make no readable picture and give "".
func (m *Matrix) Grid() string {
	const most, cell = 16, 8
	if len(m.Names) > most {
		return ""
	}
	width := len("from / to")
	for _, name := range m.Names {
		width = max(width, len(name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", width, "from / to")
	for _, name := range m.Names {
		fmt.Fprintf(&b, " %*s", max(cell, len(name)), name)
	}
	for from, answers := range m.Answers {
		fmt.Fprintf(&b, "\n%-*s", width, m.Names[from])
		for to, name := range m.Names {
			text := "."
			if a, dialed := answers[to]; dialed && a.OK() {
				text = fmt.Sprintf("%.1f", float64(a.RTT)/float64(time.Millisecond))
			} else if dialed {
				text = "-"
			}
			fmt.Fprintf(&b, " %*s", max(cell, len(name)), text)
		}
	}
	return b.String()
}
