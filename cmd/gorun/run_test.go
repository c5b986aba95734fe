package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher"
)

func TestReasons(t *testing.T) {
	require.Equal(t, []string{"node1: unknown", "node2: unknown", "hint: look", "no disk", "node3: old", "hint: renew"},
		errorLines([]error{
			&launcher.Error{Text: "node1: unknown", Hint: "look"}, &launcher.Error{Text: "node2: unknown", Hint: "look"},
			errors.New("no disk"), &launcher.Error{Text: "node3: old", Hint: "renew"},
		}))
}
