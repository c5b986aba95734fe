package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// batchScripts are the scripts of examples/slurm by name.
func batchScripts(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(testneeds.Repository(t), "examples", "slurm", "*.sh"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	scripts := make(map[string]string, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		scripts[filepath.Base(name)] = string(text)
	}
	return scripts
}

// Each script is valid for bash and describes its purpose, and its sbatch lines are where sbatch looks for them.
func TestSlurmExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testneeds.Repository(t), "examples", "slurm", "README.md"))
	require.NoError(t, err)
	for name, text := range batchScripts(t) {
		t.Run(name, func(t *testing.T) {
			bash := exec.Command("bash", "-n")
			bash.Stdin = strings.NewReader(text)
			said, err := bash.CombinedOutput()
			require.NoError(t, err, string(said))
			require.Empty(t, said)

			require.Contains(t, string(page), "("+name+")")
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			require.Equal(t, "#!/bin/bash", lines[0])
			require.True(t, strings.HasPrefix(lines[1], "# "), "what it is for")
			require.Equal(t, "#SBATCH --job-name="+strings.TrimSuffix(name, ".sh"), lines[2])
			requireEarly(t, lines)
		})
	}
}

// requireEarly: sbatch reads lines up to the first command, and text after a value has no standard meaning there.
func requireEarly(t *testing.T, lines []string) {
	t.Helper()
	commands := false
	for _, line := range lines {
		asks := strings.HasPrefix(line, "#SBATCH ")
		require.False(t, asks && commands, "%s comes after a command", line)
		require.False(t, asks && strings.Contains(line, " #"), "%s has a comment", line)
		commands = commands || line != "" && line[0] != '#'
	}
}
