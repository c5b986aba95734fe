package show

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const failed = `gorun: rank 1 failed first: killed by SIGSEGV, invalid memory access (node2, pid 8812, after 14s)
  error    │     return self.shards[index] if self.shards else self.load_all_shards()
           │ IndexError: list index out of range
  others   3 ranks stopped by gorun: [0,2-3]
  hint     add -x PYTHONFAULTHANDLER=1 to see the Python line; ulimit -c unlimited leaves a core file
exit 139
`

func TestFailure(t *testing.T) {
	const at60 = `gorun: rank 1 failed first: killed by SIGSEGV, invalid
  memory access (node2, pid 8812, after 14s)
  error    │     return self.shards[index] if self.shards
           │     else self.load_all_shards()
           │ IndexError: list index out of range
  others   3 ranks stopped by gorun: [0,2-3]
  hint     add -x PYTHONFAULTHANDLER=1 to see the Python
           line; ulimit -c unlimited leaves a core file
exit 139
`
	const at80 = `gorun: rank 1 failed first: killed by SIGSEGV, invalid memory access (node2,
  pid 8812, after 14s)
  error    │     return self.shards[index] if self.shards else
           │     self.load_all_shards()
           │ IndexError: list index out of range
  others   3 ranks stopped by gorun: [0,2-3]
  hint     add -x PYTHONFAULTHANDLER=1 to see the Python line; ulimit -c
           unlimited leaves a core file
exit 139
`
	for width, want := range map[int]string{0: failed, 60: at60, 80: at80} {
		assert.Equal(t, want, Messages{Width: width}.Failure(failed), width)
		coloured := Messages{Width: width, Colour: true}.Failure(failed)
		assert.Equal(t, want, strings.NewReplacer("\x1b[1;31m", "", "\x1b[0m", "").Replace(coloured))
		assert.Equal(t, "\x1b[1;31m"+strings.Replace(want, "14s)", "14s)\x1b[0m", 1), coloured)
	}
	assert.Empty(t, Messages{Colour: true}.Failure(""))
}

func TestWrapOfMessages(t *testing.T) {
	word := strings.Repeat("x", 50)
	assert.Equal(t, "gorun: a\n  "+word+"\n  b\n", Messages{Width: 40}.Wrap("gorun: a "+word+" b\n"))
	assert.Equal(t, "  a\n    "+word+"\n    b", Messages{Width: 40}.Wrap("  a "+word+" b"))
	assert.Equal(t, "two\n\nlines", Messages{Width: 40}.Wrap("two\n\nlines"))
	assert.Equal(t, "gorun: "+word+" b", Messages{}.Wrap("gorun: "+word+" b"))
}

func TestColour(t *testing.T) {
	var file strings.Builder
	for force, want := range map[string]bool{"": true, "1": true, "0": false} {
		t.Setenv("FORCE_COLOR", force)
		t.Setenv("CLICOLOR_FORCE", "1")
		t.Setenv("NO_COLOR", "")
		assert.Equal(t, want, Colour(&file), force)
		t.Setenv("NO_COLOR", "1")
		assert.False(t, Colour(&file), "NO_COLOR comes first")
	}
}
