package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Args[1] == "--version" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestVersionChecksItsOwnHash(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	hash := fmt.Sprintf("%x", sha256.Sum256(content))
	said, err := exec.Command(self, "--version", hash).CombinedOutput()
	require.NoError(t, err, string(said))
	said, err = exec.Command(self, "--version", hash[1:]+"x").CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "gorun: what arrived is not what was sent\n", string(said))
}
