package draw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// bytes formats a size in a suitable unit, such as "251.4 GiB". The result for 0 is "".
func bytes(n int64) string {
	if n <= 0 {
		return ""
	}
	value, unit := scaled(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB")
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + unit
}

func scaled(value, by float64, units ...string) (float64, string) {
	for ; value >= by && len(units) > 1; units = units[1:] {
		value /= by
	}
	return value, units[0]
}

// counted formats a number with its noun: "1 core", "4 cores".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

// joined joins the texts that are not empty.
func joined(separator string, texts ...string) string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, separator)
}

// list formats numbers as the kernel does ("0-3,8"), and regular steps as taskset does ("0-62:2").
func list(numbers []int) string {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var items []string
	for len(numbers) > 0 {
		n := steady(numbers)
		items = append(items, item(numbers[:n]))
		numbers = numbers[n:]
	}
	return strings.Join(items, ",")
}

// steady returns the length of the first item of a list: consecutive numbers, or at least minSteps
// numbers with the same step.
func steady(numbers []int) int {
	const minSteps = 6
	n := 1
	for n < len(numbers) && numbers[n]-numbers[n-1] == numbers[1]-numbers[0] {
		n++
	}
	if n > 1 && numbers[1]-numbers[0] > 1 && n < minSteps {
		return 1
	}
	return n
}

func item(numbers []int) string {
	first, last := numbers[0], numbers[len(numbers)-1]
	switch {
	case first == last:
		return strconv.Itoa(first)
	case numbers[1]-first == 1:
		return fmt.Sprintf("%d-%d", first, last)
	}
	return fmt.Sprintf("%d-%d:%d", first, last, numbers[1]-first)
}

func listOf(set placement.CPUSet) string { return list(numbersOf(set)) }

func numbersOf(set placement.CPUSet) []int { return slices.Collect(set.All()) }
