package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sampleState() Guarded {
	return Guarded{
		ID: "0123456789abcdef0123456789abcdef", Since: 1 << 35,
		Ranks: []int{12, 1<<22 - 1}, Cgroup: "/sys/fs/cgroup/a/gorun-b",
		Owned:    []Owned{{Path: "/tmp/a b\n", Device: 1 << 63, Inode: 3}, {Path: "/x"}},
		Numbered: []string{"/dev/shm/seg.1a.", "/dev/shm/seg.2b."},
	}
}

func TestRecordsComeBack(t *testing.T) {
	state := sampleState()
	decoded, ok := decodeState(state.encode())
	require.True(t, ok)
	assert.Equal(t, state, decoded)
}

func TestTruncatedRecordsGiveWhatIsWhole(t *testing.T) {
	state := sampleState()
	whole := state.encode()
	for n := range len(whole) {
		decoded, ok := decodeState(whole[:n])
		require.Equal(t, n >= 8, ok, "after %d bytes", n)
		assert.LessOrEqual(t, len(decoded.Owned), 1, "the last path is not whole after %d bytes", n)
	}
}

func TestOtherVersionIsRefused(t *testing.T) {
	_, ok := decodeState(appendWord(nil, recordVersion, guardVersion+1))
	assert.False(t, ok)
	_, ok = decodeState([]byte("typed by a user who tries things\n"))
	assert.False(t, ok)
}

func FuzzGuardRecords(f *testing.F) {
	state := sampleState()
	f.Add(state.encode())
	f.Add(appendWord(appendWord(nil, recordVersion, guardVersion), recordPath, 1<<59))
	f.Fuzz(func(t *testing.T, b []byte) {
		state, ok := decodeState(b)
		if !ok {
			return
		}
		again, ok := decodeState(state.encode())
		require.True(t, ok)
		require.Equal(t, len(state.Owned), len(again.Owned))
	})
}

// The pid of a reaped rank may be reused by another rank of the job.
func TestRanksThatAreReapedAreForgotten(t *testing.T) {
	state := Guarded{ID: "i", Ranks: []int{12, 13, 14}}
	b := state.encode()
	for _, pid := range []int{13, 14} {
		b = appendWord(b, recordReaped, uint64(pid))
	}
	b = appendWord(b, recordRank, 14)
	decoded, ok := decodeState(b)
	require.True(t, ok)
	assert.Equal(t, []int{12, 14}, decoded.Ranks)
}
