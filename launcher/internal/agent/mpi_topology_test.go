package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTopologyFileIsMadeOnceAndGoes(t *testing.T) {
	m, _, _ := fakeMPI(t)
	m.topology = func() (string, error) { return "<topology/>", nil }
	name, err := m.topologyFile()
	require.NoError(t, err)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "<topology/>", string(text))
	info, err := os.Stat(name)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	again, err := m.topologyFile()
	require.NoError(t, err)
	assert.Equal(t, name, again)
	m.close()
	m.job.guard.dismiss()
	assert.NoDirExists(t, filepath.Dir(name))
}

func TestNoTopologyFileWithoutATopology(t *testing.T) {
	m, _, _ := fakeMPI(t)
	m.topology = func() (string, error) { return "", errors.New("the machine is strange") }
	_, err := m.topologyFile()
	require.Error(t, err)
	left, err := os.ReadDir(m.job.agent.cfg.TempDir)
	require.NoError(t, err)
	assert.Empty(t, left)
	m.close()
}
