package show

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"gorun/internal/printable"
)

func TestTable(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	rows := [][]string{{"NAME", "VALUE", "WHY"}, {"A", "1", "short"}, {"B", "2", long}, {"alone"}, {"\x1b[2J", "\t", ""}}
	whole := "NAME   VALUE  WHY\nA      1      short\nB      2      " + long + "\nalone\n^[[2J\n"
	assert.Equal(t, whole, Table(rows, 0))
	assert.Equal(t, whole, Table(rows, 200))
	assert.Empty(t, Table(nil, 80))

	// The last column is beside the others if there is room, else below them. Nothing is lost or too wide.
	for _, width := range []int{61, 54, 42, 41} {
		text := Table(rows, width)
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, text)
		}
		assert.Equal(t, 20, strings.Count(text, "word"), text)
		assert.Contains(t, text, "A      1      short\n")
	}
	assert.Contains(t, Table(rows, 61), "B      2      word word")
	assert.Contains(t, Table(rows, 61), "\n              word")
	assert.Contains(t, Table(rows, 41), "B      2\n    word word")

	// A long name has a line of its own rather than that.
	rows[2][0] = "A_LONG_NAME_OF_A_VARIABLE"
	assert.Contains(t, Table(rows, 60), "A      1      short\n"+rows[2][0]+"\n       2      word word")
}

func TestItem(t *testing.T) {
	assert.Equal(t, "a"+strings.Repeat(" ", 39)+"a^[[31m b\n", Item("a", printable.Wrap("a\x1b[31m b", 40), 40))
}

func TestUTF8(t *testing.T) {
	for _, row := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false},
		{"", "", "C.UTF-8", true},
		{"", "", "de_DE.utf8", true},
		{"", "C", "C.UTF-8", false},
		{"C.UTF-8", "C", "C", true},
		{"POSIX", "C.UTF-8", "C.UTF-8", false},
	} {
		getenv := func(name string) string {
			return map[string]string{"LC_ALL": row.all, "LC_CTYPE": row.ctype, "LANG": row.lang}[name]
		}
		assert.Equal(t, row.want, UTF8(getenv), "%+v", row)
	}
}
