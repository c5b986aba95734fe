package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/version"
	"gorun/launcher"
)

func TestVersionCommand(t *testing.T) {
	require.Equal(t, version.Line()+"\n", ran(t, "gorun", "version"))
	var facts versionJSON
	text := ran(t, "gorun", "version", "--json")
	require.NoError(t, checkDocument([]byte(text)))
	require.NoError(t, json.Unmarshal([]byte(text), &facts))
	require.Equal(t, launcher.WireVersion, facts.WireVersion)
	require.Contains(t, facts.Go, "go1.")
	require.Equal(t, []string{"gorun", "torchrun", "gorun launch", "mpirun", "prterun", "mpiexec"}, facts.Dialects)
	require.Equal(t, []string{"2: gorun version takes no arguments; gorun ./version starts a program of that name"},
		problems(t, "gorun version 2"))
}
