package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// maxNodes bounds a list of numbers, one for each node, as package hosts bounds a list
// of names; maxCount bounds one number.
const (
	maxNodes = 1 << 16
	maxCount = 1 << 20
)

// expandCounts reads Slurm's list of a number for each node, in the nodes' order:
//
//	list := item ("," item)*
//	item := number | number "(x" times ")"      2(x3),1 is 2, 2, 2, 1
func expandCounts(list string) ([]int, error) {
	var counts []int
	for _, item := range strings.Split(list, ",") {
		number, repeat, repeated := strings.Cut(item, "(x")
		times := 1
		if repeated {
			text, closed := strings.CutSuffix(repeat, ")")
			var err error
			if times, err = count(text, maxNodes); err != nil || !closed || times == 0 {
				return nil, fmt.Errorf("%q is no number with how often it comes, as in 2(x3)", item)
			}
		}
		n, err := count(number, maxCount)
		if err != nil {
			return nil, fmt.Errorf("%q is no number, nor one with how often it comes, as in 2(x3)", item)
		}
		if len(counts)+times > maxNodes {
			return nil, fmt.Errorf("these are more than %d nodes", maxNodes)
		}
		for range times {
			counts = append(counts, n)
		}
	}
	return counts, nil
}

// count reads a number from 0 to most, in digits alone.
func count(text string, most int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("%q is no number from 0 to %d", text, most)
	}
	return int(n), nil
}

// optional reads the first of some variables that is set, which is a number; ok is false where none is.
func (r *reader) optional(names ...string) (n int, ok bool) {
	name, text := r.first(names...)
	if text == "" {
		return 0, false
	}
	n, err := count(text, maxCount)
	if err != nil {
		r.fail("%s=%s: %w", name, text, err)
	}
	return n, true
}

// counts reads a variable that has a number for each of some nodes; nil where it is
// not set.
func (r *reader) counts(name string, nodes int) []int {
	text := r.get(name)
	if text == "" {
		return nil
	}
	all, err := expandCounts(text)
	if err == nil && len(all) != nodes {
		err = fmt.Errorf("these are numbers of %d nodes, and the list of nodes has %d", len(all), nodes)
	}
	if err != nil {
		r.fail("%s=%s: %w", name, text, err)
		return nil
	}
	return all
}

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}

// cutTo takes from the last numbers what is too much for a total, as far as each stays 1.
func cutTo(all []int, total int) {
	for i, over := len(all)-1, sum(all)-total; i >= 0 && over > 0; i-- {
		take := max(min(all[i]-1, over), 0)
		all[i] -= take
		over -= take
	}
}
