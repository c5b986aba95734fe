package interop

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// twoGPUs runs a command with a simulated NVIDIA driver that has two GPUs. Only their UUIDs are known.
const twoGPUs = `mount -t tmpfs none /proc/driver &&
for i in 1 2; do
	mkdir -p "/proc/driver/nvidia/gpus/0000:0$i:00.0" &&
	printf 'GPU UUID: \t GPU-aaaa%s\n' $i >"/proc/driver/nvidia/gpus/0000:0$i:00.0/information" || exit 99
done
exec "$@"`

// whatISee prints the GPUs that are visible to a rank, and its local rank.
const whatISee = `echo "$RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES"`

// onTwoGPUs is a job on a host with two GPUs.
func onTwoGPUs(t *testing.T, words ...string) job {
	t.Helper()
	testneeds.Root(t)
	j := gorun(words...)
	j.argv = append([]string{"unshare", "-m", "sh", "-c", twoGPUs, "sh"}, j.argv...)
	return j
}

// Ranks see the GPUs that --dry-run prints: all GPUs, the chosen ones in their order, or their own.
func TestRanksSeeTheirGPUs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words string
		list  string // CUDA_VISIBLE_DEVICES of the user, "" if it is not set
		want  []string
	}{
		{"", "", []string{"0 0 ", "1 1 "}},
		{"", "1,0", []string{"0 0 1,0", "1 1 1,0"}},
		{"--gpus 1,0", "", []string{"0 0 GPU-aaaa2,GPU-aaaa1", "1 1 GPU-aaaa2,GPU-aaaa1"}},
		{"--isolate-gpus", "", []string{"0 0 GPU-aaaa1", "1 1 GPU-aaaa2"}},
		{"--isolate-gpus", "1,0", []string{"0 0 GPU-aaaa2", "1 1 GPU-aaaa1"}},
		{"--isolate-gpus --virtual-local-rank", "", []string{"0 0 GPU-aaaa1", "1 0 GPU-aaaa2"}},
		{"--isolate-gpus --gpus-per-rank 2", "", []string{"0 0 GPU-aaaa1,GPU-aaaa2"}},
		{"--isolate-gpus --map-by gpu -n 3", "", []string{"0 0 GPU-aaaa1", "1 1 GPU-aaaa2", "2 2 GPU-aaaa1"}},
		{"--isolate-gpus", "MIG-b,MIG-a", []string{"0 0 MIG-b", "1 1 MIG-a"}},
	} {
		j := onTwoGPUs(t, append(strings.Fields(test.words), "sh", "-c", whatISee)...)
		if test.list != "" {
			j = j.with("CUDA_VISIBLE_DEVICES=" + test.list)
		}
		got := j.run(t)
		require.Zero(t, got.code, "%s: %s", test.words, got.stderr)
		lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
		slices.Sort(lines)
		assert.Equal(t, test.want, lines, "%s, %s", test.words, test.list)
	}
}
