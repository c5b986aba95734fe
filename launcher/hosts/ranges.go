package hosts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds the hosts of one list or file, so that node[1-999999999] does not exhaust the memory.
const maxHosts = 1 << 16

// maxDigits bounds a number of a range: it and its successor fit into an int64.
const maxDigits = 18

// Expand returns the names of a list in Slurm's hostlist grammar, in its order, with repetitions.
//
//	list   := elem ("," elem)*              commas inside brackets do not split
//	elem   := text ("[" ranges "]" text)*   several brackets: all combinations, the first one slowest
//	ranges := range ("," range)*
//	range  := number | number "-" number    padded with zeros to the width of the first number
//
// Unlike scontrol, it accepts text behind the last bracket (gpu-[1,3]-ib), refuses [1-], and orders names with three
// brackets and more differently. An IPv6 address is one name. More than 65536 names are refused. The error joins all
// mistakes.
func Expand(list string) ([]string, error) {
	var (
		names    []string
		mistakes []error
	)
	for _, entry := range splitList(list) {
		some, err := expandEntry(strings.TrimSpace(entry), maxHosts-len(names))
		if err != nil {
			mistakes = append(mistakes, err)
		}
		names = append(names, some...)
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return names, nil
}

func expandEntry(entry string, room int) ([]string, error) {
	if name, ok := address(entry); ok {
		return []string{name}, nil
	}
	names, err := expandName(entry, room)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.Contains(name, ":") {
			return nil, fmt.Errorf("%q is not a host name: it contains ':'", name)
		}
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// expandName returns the names of text with brackets, at most room.
func expandName(text string, room int) ([]string, error) {
	names := []string{""}
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "[")
		if strings.Contains(before, "]") {
			return nil, fmt.Errorf("%q: ] without [", text)
		}
		each := []string{before}
		rest = ""
		if found {
			ranges, behind, closed := strings.Cut(after, "]")
			if !closed {
				return nil, fmt.Errorf("%q: missing ]", text)
			}
			numbers, err := expandRanges(ranges, room/len(names))
			if err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
			for i := range numbers {
				numbers[i] = before + numbers[i]
			}
			each, rest = numbers, behind
		}
		names = product(names, each)
	}
	if len(names) > room {
		return nil, errTooMany(text)
	}
	return names, nil
}

func errTooMany(text string) error {
	return fmt.Errorf("%q: more than %d hosts, the limit of a list or file", text, maxHosts)
}

// product returns every head followed by every tail.
func product(heads, tails []string) []string {
	all := make([]string, 0, len(heads)*len(tails))
	for _, head := range heads {
		for _, tail := range tails {
			all = append(all, head+tail)
		}
	}
	return all
}

// expandRanges parses the content of brackets: 01-16,20.
func expandRanges(ranges string, room int) ([]string, error) {
	var numbers []string
	for _, text := range strings.Split(ranges, ",") {
		low, high, isRange := strings.Cut(text, "-")
		first, err := rangeNumber(low, text)
		if err != nil {
			return nil, err
		}
		if !isRange {
			high = low
		}
		last, err := rangeNumber(high, text)
		switch {
		case err != nil:
			return nil, err
		case last < first:
			return nil, fmt.Errorf("[%s] ends before it starts: write [%s-%s]", text, high, low)
		case last-first >= int64(room-len(numbers)):
			return nil, fmt.Errorf("[%s] is more than %d hosts, the limit of a list or file", text, maxHosts)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, pad(n, len(low)))
		}
	}
	return numbers, nil
}

// rangeNumber parses one number of the range text.
func rangeNumber(number, text string) (int64, error) {
	if number == "" || len(number) > maxDigits || strings.Trim(number, "0123456789") != "" {
		return 0, fmt.Errorf("[%s] is neither a number nor a range such as 01-16; steps and letters are not supported", text)
	}
	return strconv.ParseInt(number, 10, 64)
}

// pad formats n with leading zeros.
func pad(n int64, width int) string { return fmt.Sprintf("%0*d", width, n) }
