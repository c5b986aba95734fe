package testneeds

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// skipped runs body as a subtest whose skip is expected, and returns what it left in the skip log.
func skipped(t *testing.T, body func(*testing.T)) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "skips")
	t.Setenv(SkipLogVariable, log)
	wasSkipped := false
	t.Run("inner", func(t *testing.T) {
		defer func() { wasSkipped = t.Skipped() }()
		body(t)
	})
	require.True(t, wasSkipped)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	return string(text)
}

func TestSkipIsRecorded(t *testing.T) {
	log := skipped(t, func(t *testing.T) { Skip(t, "moon", "no\tmoon\nis up") })
	require.Equal(t, "moon\t"+filepath.Base(os.Args[0])+".TestSkipIsRecorded/inner\tno moon is up\n", log)
}

func TestProgramThatIsMissingSkips(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	require.Contains(t, skipped(t, func(t *testing.T) { Program(t, LayerGCC, "gcc") }), "gcc\t")
}

func TestRecordReportsAnUnwritableLog(t *testing.T) {
	require.Error(t, record(filepath.Join(t.TempDir(), "missing", "log"), LayerRoot, "T", "r"))
	require.NoError(t, record("", LayerRoot, "T", "r"), "no log was asked for")
}

func TestRepositoryHoldsTheModule(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(Repository(t), "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(module), "module gorun\n")
}

func TestCount(t *testing.T) {
	t.Setenv(SoakVariable, "")
	require.Equal(t, 3, Count(3, 1000))
	t.Setenv(SoakVariable, "1")
	require.Equal(t, 1000, Count(3, 1000))
}

func TestRandRepeatsASeed(t *testing.T) {
	t.Setenv(SeedVariable, "42")
	require.Equal(t, Rand(t).Uint64(), Rand(t).Uint64())
}
