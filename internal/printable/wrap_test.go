package printable_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/internal/printable"
)

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"a b ccccc d": {"a b", "ccccc", "d"}, "": {""}, "  a   b ": {"a b"}, "a\x1bb": {"a^[b"}, "ü ü é": {"ü ü", "é"},
	} {
		assert.Equal(t, want, printable.Wrap(text, 4), text)
	}
}
