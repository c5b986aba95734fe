// Package spelling counts the slips between what was typed and what there is.
package spelling

import "math/bits"

// longest is how many bytes of a text are compared without memory of their own.
const longest = 64

// Distance is the number of letters that are to be put in, left out, changed, or
// swapped with their neighbour to make a of b, in bytes (the optimal string alignment
// distance); most where it is that or more, which is told the sooner the less that is.
func Distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	var memory [3][longest + 1]int
	before, row, next := memory[0][:], memory[1][:], memory[2][:]
	if len(b) > longest {
		before, row, next = make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	}
	for j := range len(b) + 1 {
		row[j] = j
	}
	last := 0
	for i := range len(a) {
		from, to := max(i-most, 0), min(i+most+1, len(b)) // what is farther from the diagonal is most and more
		next[from] = most
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
			next[to+1] = most // the next row looks there
		}
		if last >= most && least >= most { // a swap goes two rows back
			return most
		}
		before, row, next, last = row, next, before, least
	}
	return min(row[len(b)], most)
}

// Letters are the different bytes of a text, by which most that are far apart are told
// from each other without a look at their order.
type Letters uint64

// LettersOf are a text's. Some bytes count as the same.
func LettersOf(text string) Letters {
	var set Letters
	for i := range len(text) {
		set |= 1 << (text[i] & 63)
	}
	return set
}

// AtLeast is how far apart two texts of these letters are at least.
func (l Letters) AtLeast(other Letters) int {
	return max(bits.OnesCount64(uint64(l&^other)), bits.OnesCount64(uint64(other&^l)))
}
