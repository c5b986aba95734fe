package bootstrap

import (
	"context"
	"errors"
	"io"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
)

// sayer is a host that prints a text. The mark replaces each M, and its second half each N.
type sayer struct{ text string }

var marks = regexp.MustCompile("gr_m=(m[0-9a-f]+); gr_n=(m[0-9a-f]+)")

func (s sayer) Name() string { return "node1" }
func (s sayer) Close() error { return nil }

func (s sayer) Start(_ context.Context, line string) (remote.Process, error) {
	halves := marks.FindStringSubmatch(line)
	return saying{strings.NewReader(strings.NewReplacer("M", halves[1]+halves[2], "N", halves[2]).Replace(s.text))}, nil
}

type saying struct{ *strings.Reader }

func (saying) Write(b []byte) (int, error) { return len(b), nil }
func (saying) CloseWrite() error           { return nil }
func (saying) Stderr() string              { return "" }
func (saying) Wait() error                 { return nil }
func (saying) Close() error                { return nil }

// For any answer of a host, the agent's data starts right after the mark, and a copy is in its intended place. All
// other text in messages is short and printable.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		"", "motd\nM run\nframes", "M place /x: full\nM place /y: full\n", "M need files\nM landed 7 /tmp/gorun-job-N\n",
		"M landed 7 /tmp/x-", "M landed 7 /tmp/../gorun-job-N\n", "M landed 0 /gorun-job-N\n", "M landed -1 ../x\n",
		"M landed 7 /tmp/\x1b[2J\n",
		"M bad 1 \x1b]0;t\a\n", "M arch Darwin arm64\n", "M missing\n", "M broken\u009b2J\n", "MM run\n",
		strings.Repeat("M place /x: no\n", 40), "M \x00\n", "mmM run\nM run\n",
	} {
		f.Add(text)
	}
	bundle, err := ReadBundle(f.TempDir(), nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		stream, err := Start(t.Context(), sayer{text}, Config{Agent: "gorun"})
		if err == nil {
			rest, err := io.ReadAll(stream)
			if ended := (&remote.Error{}); err != nil {
				require.ErrorAs(t, err, &ended)
			}
			require.Contains(t, text, "M")
			require.True(t, strings.HasSuffix(text, unmarked(string(rest))), "%q", rest)
		}
		presentable(t, err)
		copied, err := Copy(t.Context(), sayer{text}, bundle, time.Minute)
		if err == nil {
			require.True(t, path.IsAbs(copied.Path) && path.Clean(copied.Path) == copied.Path, copied.Path)
			require.Regexp(t, "^gorun-job-m[0-9a-f]{16}$", path.Base(copied.Path))
			require.Positive(t, copied.PID)
		}
		presentable(t, err)
	})
}

// unmarked restores M and N in the text.
func unmarked(text string) string {
	text = regexp.MustCompile("m[0-9a-f]{16}m[0-9a-f]{16}").ReplaceAllString(text, "M")
	return regexp.MustCompile("m[0-9a-f]{16}").ReplaceAllString(text, "N")
}

func presentable(t *testing.T, err error) {
	if err == nil {
		return
	}
	var known *remote.Error
	require.True(t, errors.As(err, &known), "%T", err)
	require.Less(t, len(err.Error()), 16<<10)
	for _, r := range err.Error() + known.Hint {
		require.False(t, unicode.IsControl(r) && r != '\t', "%q", err)
	}
}
