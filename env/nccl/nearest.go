package nccl

import "strings"

// Nearest returns those of the known names that were most likely meant, the best
// first and three at most; none where all are far. Letters' case does not count.
func Nearest(name string, known []string) []string {
	const most = 3
	name = strings.ToUpper(name)
	_, rest, _ := strings.Cut(name, "_") // NCCL_ says little
	limit := min(max(len(rest), len(name)-len("NCCL_"))/4, most) + 1
	var found []string
	for distance := 1; distance <= limit && len(found) < most; distance++ {
		for _, k := range known {
			if len(found) < most && edits(name, strings.ToUpper(k), distance+1) == distance || distance == 1 && name == strings.ToUpper(k) {
				found = append(found, k)
			}
		}
		if found != nil { // a farther one is a guess beside a nearer one
			break
		}
	}
	if found == nil {
		found = reordered(name, known, most)
	}
	if found == nil {
		found = begun(name, known, most)
	}
	return found
}

// begun finds names whose first words are these, or nearly: NCCL_SOKET.
func begun(name string, known []string, most int) (found []string) {
	words := strings.Count(name, "_") + 1
	if words < 2 {
		return nil
	}
	for distance := 0; distance <= 1 && found == nil; distance++ {
		for _, k := range known {
			if parts := strings.SplitN(k, "_", words+1); len(parts) > words && len(found) < most && edits(name, strings.ToUpper(strings.Join(parts[:words], "_")), distance+1) == distance {
				found = append(found, k)
			}
		}
	}
	return found
}

// reordered finds names of the same words in another order, or with one word more or
// less: NCCL_IFNAME_SOCKET, NCCL_MAX_CHANNELS_P2P.
func reordered(name string, known []string, most int) (found []string) {
	words := strings.Split(name, "_")
	for off := 0; off <= 1 && found == nil; off++ {
		for _, k := range known {
			if len(found) < most && missing(words, strings.Split(k, "_")) == off {
				found = append(found, k)
			}
		}
	}
	return found
}

// missing counts words that only one of two lists has; a list of two words or fewer
// says too little.
func missing(a, b []string) int {
	if min(len(a), len(b)) < 3 {
		return len(a) + len(b)
	}
	count := make(map[string]int)
	for _, w := range a {
		count[w]++
	}
	for _, w := range b {
		count[w]--
	}
	n := 0
	for _, c := range count {
		n += max(c, -c)
	}
	return n
}

// edits is the number of letters that are to be put in, left out, changed, or
// swapped with their neighbour to make a of b; most where it is that or more.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], most)
}
