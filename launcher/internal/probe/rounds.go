package probe

import "slices"

// Pair is a node that dials another one.
type Pair struct{ From, To int }

// undirected returns the same pair for both directions.
func (p Pair) undirected() Pair { return Pair{min(p.From, p.To), max(p.From, p.To)} }

func (p Pair) reverse() Pair { return Pair{p.To, p.From} }

// maxMeasureAll is the number of nodes up to which all paths are measured. With more nodes, only the paths between
// each node and the next are.
const maxMeasureAll = 8

// Rounds schedules measurements between n nodes: no node is in two pairs of a round, and each pair has been measured in
// one direction before any is in the other.
func Rounds(n int) (rounds [][]Pair) {
	add := func(p Pair) {
		i := slices.IndexFunc(rounds, func(round []Pair) bool {
			return !slices.ContainsFunc(round, func(q Pair) bool {
				return q.From == p.From || q.From == p.To || q.To == p.From || q.To == p.To
			})
		})
		if i < 0 {
			i, rounds = len(rounds), append(rounds, nil)
		}
		rounds[i] = append(rounds[i], p)
	}
	for i := range n {
		if n > maxMeasureAll {
			add(Pair{i, (i + 1) % n})
			continue
		}
		for j := i + 1; j < n; j++ {
			add(Pair{i, j})
		}
	}
	for _, round := range rounds {
		var reversed []Pair
		for _, p := range round {
			reversed = append(reversed, p.reverse())
		}
		rounds = append(rounds, reversed)
	}
	return rounds
}
