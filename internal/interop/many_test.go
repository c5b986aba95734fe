package interop

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Any number of ranks that end at the same time, in any order, must neither hang the launcher nor change its
// status. Other launchers hang in half of such runs, because ranks end before they are registered.
func TestManyRanksThatEndAtOnce(t *testing.T) {
	random := testneeds.Rand(t)
	for range testneeds.Count(50, 1000) {
		gorun("-n", "256", "true").succeed(t)
	}
	for range testneeds.Count(5, 100) {
		n := 1 + random.IntN(300)
		got := gorun("-n", strconv.Itoa(n), "false").run(t)
		require.Equal(t, 1, got.code, "%d × false: %s", n, got.stderr)
		require.LessOrEqual(t, strings.Count(got.stderr, "\n"), 25, "the report merges equal lines: %s", got.stderr)
	}
}

// 500 ranks run at the same time, and then all exit.
func TestFiveHundredRanks(t *testing.T) {
	const ranks = 500
	r := gorun("-n", strconv.Itoa(ranks), stand(t)).start(t)
	require.True(t, r.until(t, &r.stdout, "here\n", ranks), r.stderr.String())
	require.GreaterOrEqual(t, len(marked(r.mark)), ranks)
	r.signal(t, syscall.SIGTERM)
	require.Equal(t, 143, r.wait(t).code)
}
