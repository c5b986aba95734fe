package munge

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Only what unmunge says of this user is believed, whatever the text says, and the text stays as it is.
func FuzzTextOf(f *testing.F) {
	f.Add([]byte("STATUS:          0\nUID:             7\n\ntext"), 7)
	f.Add([]byte("UID: 8\nUID: 7\n\n"), 7)
	f.Add([]byte("\n\nUID: 7\n\n"), 7)
	f.Add([]byte("UID: \x1b[2J\n\n"), 0)
	f.Fuzz(func(t *testing.T, text []byte, user int) {
		about := fmt.Sprintf("STATUS:          0\nUID:             %d\n\n", user)
		got, err := parseOutput(append([]byte(about), text...), user)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
		_, err = parseOutput(append([]byte(about), text...), user+1)
		require.Error(t, err)

		got, err = parseOutput(text, user)
		if err == nil {
			head, rest, found := bytes.Cut(text, []byte("\n\n"))
			require.True(t, found && bytes.Equal(rest, got))
			require.Contains(t, string(head), "UID")
			require.Contains(t, string(head), strconv.Itoa(user))
			return
		}
		require.Nil(t, got)
		require.Less(t, len(err.Error()), 16<<10)
		for _, r := range err.Error() {
			require.False(t, unicode.IsControl(r) && r != '\t', "%q", err)
		}
	})
}
