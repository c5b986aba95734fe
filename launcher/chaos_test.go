package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

func TestSeedRepeatsFaults(t *testing.T) {
	with := func(seed int) *chaos {
		list, err := job.ParseChaos("kill-rank@~9s,kill-agent@5s±4s,cut-link@1s")
		require.NoError(t, err)
		return newChaos(&Spec{Chaos: list, ChaosSeed: seed})
	}
	require.Equal(t, with(7), with(7))
	require.NotEqual(t, with(7), with(8))
	require.NotZero(t, with(0).seed, "one that the report shows")
	require.Nil(t, newChaos(&Spec{}))
}
