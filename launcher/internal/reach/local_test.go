package reach

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/wire"
)

func TestLocalCarriesFramesBothWays(t *testing.T) {
	head, agent := Local()
	chunk := bytes.Repeat([]byte("x"), 100_000)
	go func() {
		for i := range 100 {
			_ = agent.Output(i, 1, chunk)
		}
		_ = agent.Close()
	}()
	require.NoError(t, head.Send(&wire.Kill{}))
	for i := range 100 {
		f, err := head.Read()
		require.NoError(t, err)
		rank, _, p, err := f.Stream()
		require.NoError(t, err)
		require.Equal(t, i, rank)
		require.Len(t, p, len(chunk))
	}
	_, err := head.Read()
	assert.Equal(t, io.EOF, err)
}

func TestWhatWasWrittenBeforeTheEndIsRead(t *testing.T) {
	head, agent := Local()
	require.NoError(t, head.Send(&wire.Kill{}))
	require.NoError(t, head.Close())
	f, err := agent.Read()
	require.NoError(t, err)
	assert.Equal(t, wire.TypeKill, f.Type)
	_, err = agent.Read()
	assert.Equal(t, io.EOF, err)
	assert.ErrorIs(t, agent.Send(&wire.CleanedUp{}), io.ErrClosedPipe)
}

// Shared frames are neither copied nor changed, and keep their order.
func TestSharedFramesKeepTheirPlaceAndTheirBytes(t *testing.T) {
	shared, err := wire.Encode(&wire.Notice{Text: "to all"})
	require.NoError(t, err)
	before := bytes.Clone(shared)
	head, agent := Local()
	go func() {
		for i := range 1000 {
			_ = head.Send(&wire.Resize{Rows: i})
			_ = head.SendEncoded(shared)
			_ = head.Send(&wire.Resize{Cols: i})
		}
		_ = head.Close()
	}()
	for i := range 1000 {
		var first, last wire.Resize
		var notice wire.Notice
		for _, m := range []wire.Message{&first, &notice, &last} {
			f, err := agent.Read()
			require.NoError(t, err)
			require.NoError(t, f.Decode(m))
		}
		require.Equal(t, [2]wire.Resize{{Rows: i}, {Cols: i}}, [2]wire.Resize{first, last})
		require.Equal(t, "to all", notice.Text)
	}
	_, err = agent.Read()
	require.Equal(t, io.EOF, err)
	require.Equal(t, before, shared)
}
