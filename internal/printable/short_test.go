package printable_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/internal/printable"
)

func TestShort(t *testing.T) {
	x := strings.Repeat("x", 300)
	cut := strings.Repeat("x", 60) + "…"
	path := "/" + strings.Repeat("directory/", 18) + "file"
	for in, want := range map[string]string{
		"":                                   "",
		"short":                              "short",
		"--rankfile " + path + ": not there": "--rankfile " + path + ": not there",
		"--map-by " + x + ": unknown object \"" + x + "\"; known are": "--map-by " + cut + ": unknown object \"" +
			cut[1:] + "\"; known are",
		fmt.Sprintf("%q is no line", strings.Repeat("a \"b\" ", 50)): `"` + strings.Repeat(`a \"b\" `, 8)[:59] +
			`…" is no line`,
		`one " alone ` + x:                  `one " alone ` + cut,
		strings.Repeat("ü", 201) + ": what": strings.Repeat("ü", 60) + "…: what",
	} {
		assert.Equal(t, want, printable.Short(in))
	}
	long := printable.Short("begin " + strings.Repeat("a b ", 1e6) + " end")
	assert.Less(t, len(long), 5000)
	assert.Less(t, len(printable.Short(`"`+strings.Repeat(`\"`, 4<<20))), 20000,
		"in hours, if each mark is looked up to the end")
	assert.True(t, strings.HasPrefix(long, "begin a b ") && strings.HasSuffix(long, " end"))
}

func FuzzShort(f *testing.F) {
	f.Add(`a "quoted \" text" ` + strings.Repeat("y", 500))
	f.Fuzz(func(t *testing.T, s string) {
		short := printable.Short(s)
		if len(s) <= 200 {
			assert.Equal(t, s, short)
		}
		assert.LessOrEqual(t, len([]rune(short)), 4100)
	})
}
