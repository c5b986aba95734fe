package printable_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/internal/printable"
)

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{
		"":                nil,
		"7":               {7},
		"0-3,6":           {0, 1, 2, 3, 6},
		"0-136,138-511":   append(upTo(0, 136), upTo(138, 511)...),
		"-2--1,3,5,10-11": {-2, -1, 3, 5, 10, 11},
	} {
		assert.Equal(t, want, printable.Ranges(numbers))
	}
}

func upTo(first, last int) (list []int) {
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}
