//go:build cgo

package nccl

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Blobs of other ranks can contain anything. NCCL gets only complete ids.
func FuzzIDs(f *testing.F) {
	own := blob("nccl 2.30", carriesNothing, nil)
	f.Add(blob("nccl 2.30", carriesID, make([]byte, idBytes)))
	f.Add(blob("nccl 2.30", carriesID, make([]byte, idBytes-1)))
	f.Add(blob("nccl 2.30", carriesError, []byte("no GPU")))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ids, err := idsOf([][]byte{own, said}, 0, 2)
		if err != nil {
			return
		}
		require.Len(t, ids, idBytes)
		require.True(t, bytes.HasSuffix(said, ids))
	})
}
