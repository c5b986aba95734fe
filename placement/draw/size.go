package draw

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/placement"
)

// bytes writes a size in the unit that suits it: "251.4 GiB"; 0 is "".
func bytes(n int64) string {
	if n <= 0 {
		return ""
	}
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + unit
}

// counted writes a number with its noun: "1 core", "4 cores".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

// joined puts what is not empty in a row.
func joined(separator string, texts ...string) string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, separator)
}

// setOf is the set of some numbers from 0 up; others are left out.
func setOf(numbers []int) placement.CPUSet {
	var words []uint64
	for _, n := range numbers {
		if n < 0 || n >= 1<<16 {
			continue
		}
		for len(words) <= n/64 {
			words = append(words, 0)
		}
		words[n/64] |= 1 << (n % 64)
	}
	return placement.CPUSetOf(words)
}

// list writes numbers as the kernel does: "0-3,8".
func list(numbers []int) string { return setOf(numbers).String() }
