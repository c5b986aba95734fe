package hosts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireSound states what holds for whatever was accepted: names that are safe
// to put on a command line, numbers in their bounds, no name twice.
func requireSound(t *testing.T, all []Host) {
	seen := map[string]bool{}
	for _, h := range all {
		require.NotEmpty(t, h.Name)
		require.NotEqual(t, byte('-'), h.Name[0])
		require.False(t, strings.ContainsAny(h.Name+h.User, " \t\r\n;&|`'\"<>()*?[]{}#~!"), "%q %q", h.Name, h.User)
		require.False(t, strings.HasPrefix(h.User, "-"))
		require.GreaterOrEqual(t, h.Slots, 0)
		require.GreaterOrEqual(t, h.MaxSlots, 0)
		require.True(t, h.Port >= 0 && h.Port <= 65535)
		require.False(t, strings.HasPrefix(h.Address, "-"))
		require.False(t, seen[h.Name], "%q comes twice", h.Name)
		seen[h.Name] = true
	}
}

// The seeds of all lie in testdata/fuzz.

func FuzzParseList(f *testing.F) {
	f.Fuzz(func(t *testing.T, list string) {
		all, err := ParseList(list, "-H")
		if err == nil {
			require.NotEmpty(t, all)
		}
		requireSound(t, all)
	})
}

func FuzzParseFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		f, err := ParseFile("hosts.txt", text)
		if err == nil {
			require.NotEmpty(t, f.Hosts)
			require.NotEmpty(t, f.Dialect)
		}
		requireSound(t, f.Hosts)
	})
}

// Expand reads what NodeList writes, in whichever order and however often the
// names come.
func FuzzNodeList(f *testing.F) {
	f.Fuzz(func(t *testing.T, list string) {
		names, err := Expand(list)
		if err != nil {
			return
		}
		written := NodeList(names)
		again, err := Expand(written)
		require.NoError(t, err, written)
		slices.Sort(names)
		slices.Sort(again)
		require.Equal(t, slices.Compact(names), again, written)
	})
}
