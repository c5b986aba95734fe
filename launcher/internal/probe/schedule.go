package probe

// Pair is a node that dials another one.
type Pair struct{ From, To int }

// ends is the pair, whichever dials.
func (p Pair) ends() Pair { return Pair{min(p.From, p.To), max(p.From, p.To)} }

// back is the other way.
func (p Pair) back() Pair { return Pair{p.To, p.From} }

// everyPair is up to how many nodes all ways are measured; of more, those from each
// node to the next one and back.
const everyPair = 8

// Rounds says in which order the ways between n nodes are measured: in each round no
// node has two of them, and each pair has had one before any has the way back.
func Rounds(n int) (rounds [][]Pair) {
	rounds = matches(n)
	for _, round := range rounds {
		back := make([]Pair, len(round))
		for i, p := range round {
			back[i] = p.back()
		}
		rounds = append(rounds, back)
	}
	return rounds
}

func matches(n int) (rounds [][]Pair) {
	switch {
	case n < 2:
		return nil
	case n <= everyPair:
		return tournament(n)
	}
	even, odd, last := []Pair(nil), []Pair(nil), Pair{n - 1, 0}
	for i := 0; i+1 < n; i++ {
		if i%2 == 0 {
			even = append(even, Pair{i, i + 1})
		} else {
			odd = append(odd, Pair{i, i + 1})
		}
	}
	if n%2 == 0 {
		return [][]Pair{even, append(odd, last)}
	}
	return [][]Pair{even, odd, {last}}
}

// tournament has everybody meet everybody: one seat stays, the others move on.
func tournament(n int) (rounds [][]Pair) {
	seats := n + n%2 // who meets the last seat of an odd number rests
	for r := range seats - 1 {
		var round []Pair
		for i := range seats / 2 {
			a, b := (r+i)%(seats-1), (r-i+seats-1)%(seats-1)
			if i == 0 {
				b = seats - 1
			}
			if b < n {
				round = append(round, Pair{min(a, b), max(a, b)})
			}
		}
		rounds = append(rounds, round)
	}
	return rounds
}
