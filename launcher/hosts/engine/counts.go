package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxNodes bounds a list with a number for each node, maxCount a number.
const (
	maxNodes = 1 << 16
	maxCount = 1 << 20
)

// expandCounts parses Slurm's list of a number for each node, in the nodes' order:
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
			if times, err = parseCount(text, 1, maxNodes); err != nil || !closed {
				return nil, fmt.Errorf("%q is not a number with a repeat count, as in 2(x3)", item)
			}
		}
		n, err := parseCount(number, 0, maxCount)
		if err != nil {
			return nil, fmt.Errorf("%q is neither a number nor one with a repeat count, as in 2(x3)", item)
		}
		if len(counts)+times > maxNodes {
			return nil, fmt.Errorf("more than %d nodes", maxNodes)
		}
		counts = append(counts, slices.Repeat([]int{n}, times)...)
	}
	return counts, nil
}

// parseCount parses digits.
func parseCount(text string, least, most int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) < least || int(n) > most {
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, least, most)
	}
	return int(n), nil
}

// optional parses the first variable that is set; ok is false if none is.
func (r *reader) optional(names ...string) (n int, ok bool) {
	name, text := r.first(names...)
	if text == "" {
		return 0, false
	}
	n, err := parseCount(text, 0, maxCount)
	if err != nil {
		r.fail("%s=%s: %w", name, text, err)
	}
	return n, true
}

// counts parses a variable with a number for each node; nil: it is not set.
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

// cutTo reduces numbers to a total, the last ones first, each to no less than 1.
func cutTo(all []int, total int) {
	for i, over := len(all)-1, sum(all)-total; i >= 0 && over > 0; i-- {
		take := max(min(all[i]-1, over), 0)
		all[i] -= take
		over -= take
	}
}
