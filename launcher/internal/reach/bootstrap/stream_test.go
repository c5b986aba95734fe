package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
)

// parting is a process whose last words arrive with its end.
type parting struct {
	remote.Process
	words string
}

func (p *parting) Wait() error    { p.words = "no message for 15s"; return nil }
func (p *parting) Stderr() string { return p.words }

func TestLastWordsAreAwaited(t *testing.T) {
	require.Equal(t, "no message for 15s", (&Stream{Process: &parting{}}).LastWords())
}
