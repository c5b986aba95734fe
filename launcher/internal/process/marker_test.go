package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMarker(t *testing.T) {
	assert.Equal(t, Marker("outer"), Marker("").With("outer"))
	m := Marker("outer").With("inner")
	assert.Equal(t, Marker("outer:inner"), m)
	for id, want := range map[string]bool{
		"outer": true, "inner": true, "oute": false, "outer:inner": false,
		"r:i": false, "": false,
	} {
		assert.Equal(t, want, m.Has(id), "%q", id)
	}
	assert.False(t, Marker("").Has(""))
	assert.False(t, Marker("a::b").Has(""))
}

func TestJobIDs(t *testing.T) {
	one, err := NewJobID()
	require.NoError(t, err)
	other, err := NewJobID()
	require.NoError(t, err)
	assert.Regexp(t, "^[0-9a-f]{32}$", one)
	assert.NotEqual(t, one, other)
}
