package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLaunch launches jobs as main does. gorun is compiled with the profile that `make profile` takes of it.
func BenchmarkLaunch(b *testing.B) {
	for b.Loop() {
		for _, ranks := range []string{"1", "4", "16"} {
			require.Zero(b, gorun("gorun", []string{"-n", ranks, "/bin/true"}, io.Discard, io.Discard))
		}
	}
}
