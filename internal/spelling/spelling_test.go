package spelling

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "abc", 3},
		{"train.py", "train.py", 0},
		{"trian.py", "train.py", 1},
		{"tran.py", "train.py", 1},
		{"traiin.py", "train.py", 1},
		{"troin.py", "train.py", 1},
		{"ca", "abc", 3}, // no letter is moved twice
		{"kitten", "sitting", 3},
		{"ab", "ba", 1},
		{"abcd", "badc", 2},
		{strings.Repeat("x", 200), strings.Repeat("x", 198) + "yz", 2},
	} {
		assert.Equal(t, row.want, Distance(row.a, row.b, 9), "%s %s", row.a, row.b)
		assert.Equal(t, row.want, Distance(row.b, row.a, 9), "%s %s", row.b, row.a)
	}
}

// Early results equal those of the definition, and letters are a lower bound.
func TestDistanceIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, r.IntN(9))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 20_000 {
		a, b := text(), text()
		want := definition(a, b)
		for most := range 10 {
			assert.Equal(t, min(want, most), Distance(a, b, most), "%q %q %d", a, b, most)
		}
		assert.LessOrEqual(t, LettersOf(a).AtLeast(LettersOf(b)), want, "%q %q", a, b)
	}
}

// definition is the distance by its recursive definition.
func definition(a, b string) int {
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case a[0] == b[0]:
		return definition(a[1:], b[1:])
	}
	least := 1 + min(definition(a[1:], b), definition(a, b[1:]), definition(a[1:], b[1:]))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, 1+definition(a[2:], b[2:]))
	}
	return least
}
