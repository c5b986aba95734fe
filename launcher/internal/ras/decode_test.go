package ras_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/ras"
)

// What an agent sends comes back as it was.
func TestDecode(t *testing.T) {
	s, err := ras.ParseJSON(recorded(t, "stopped.json"))
	require.NoError(t, err)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	back, err := ras.Decode(text)
	require.NoError(t, err)
	require.Equal(t, s, back)
	_, err = ras.Decode(nil)
	require.Error(t, err)
}

// Another host's agent cannot have the launcher count ranks without an end.
func TestDecodeOfHostileAgents(t *testing.T) {
	many := func(n int, one string) string { return "[" + strings.Repeat(one+",", n) + one + "]" }
	for _, text := range []string{
		`{"communicators":[{"hash":"x","size":4611686018427387904}]}`,
		`{"communicators":[{"hash":"x","size":-1}]}`,
		`{"communicators":` + many(4096, `{}`) + `}`,
		`{"communicators":[{"ranks":` + many(1<<17, `{}`) + `}]}`,
		`{"communicators":[{"tallies":` + many(1<<17, `{}`) + `}]}`,
		`{"missing":` + many(1<<17, `{}`) + `}`,
	} {
		_, err := ras.Decode([]byte(text))
		require.ErrorContains(t, err, "it has more than", text[:40])
	}
}

// As many processes as there may be are joined before anybody loses patience.
func TestMergeOfManyProcesses(t *testing.T) {
	var s ras.Status
	for pid := range 1 << 16 {
		s.Missing = append(s.Missing, ras.Process{PID: pid, Host: fmt.Sprint("10.0.0.", pid%7)})
	}
	require.Equal(t, s.Missing, ras.Merge([]ras.Status{s, s}).Missing)
}
