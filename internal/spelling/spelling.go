// Package spelling measures how similar two words are.
package spelling

import "math/bits"

// maxOnStack is the length up to which Distance does not allocate.
const maxOnStack = 64

// Distance returns the optimal string alignment distance in bytes: the number of insertions, deletions, substitutions
// and swaps of neighbours between a and b, but at most limit. A small limit makes it fast.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var memory [3][maxOnStack + 1]int
	before, row, next := memory[0][:], memory[1][:], memory[2][:]
	if len(b) > maxOnStack {
		before, row, next = make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	}
	for j := range len(b) + 1 {
		row[j] = j
	}
	last := 0
	for i := range len(a) {
		from, to := max(i-limit, 0), min(i+limit+1, len(b)) // farther from the diagonal, it is limit or more
		next[from] = limit
		if from == 0 {
			next[0] = i + 1
		}
		least := next[from]
		for j := from; j < to; j++ {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(row[j]+change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
			least = min(least, next[j+1])
		}
		if to < len(b) {
			next[to+1] = limit // the next row looks there
		}
		if last >= limit && least >= limit { // a swap refers to the row before the last
			return limit
		}
		before, row, next, last = row, next, before, least
	}
	return min(row[len(b)], limit)
}

// Letters is the set of a text's bytes. It rules out most texts that differ much, without Distance.
type Letters uint64

// LettersOf returns a text's letters. Bytes with the same lower six bits are the same letter.
func LettersOf(text string) Letters {
	var set Letters
	for i := range len(text) {
		set |= 1 << (text[i] & 63)
	}
	return set
}

// AtLeast is a lower bound of the distance of texts with these letters.
func (l Letters) AtLeast(other Letters) int {
	return max(bits.OnesCount64(uint64(l&^other)), bits.OnesCount64(uint64(other&^l)))
}
