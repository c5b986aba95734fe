package placement

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGroupsOfObjects: a number after an object makes groups of several objects. Ranks are mapped to a
// group and bound inside it.
func TestGroupsOfObjects(t *testing.T) {
	machine := synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:1")
	for request, want := range map[string]string{
		"core:2":              "0-1 2-3 4-5 6-7",
		"core:2 core":         "0 2 4 6 1 3",
		"core:3 core":         "0 3 6 1 4 7",
		"socket:2 core":       "0 1 2 3 4 5",
		"package:2 socket":    "0-3 4-7 0-3",
		"l3ucache l2ucache:9": "--bind-to l2ucache:9: node 0 has no L2 caches",
		"numa:3":              "--map-by numa:3: node 0 has 2 NUMA nodes",
		"node:2":              `--map-by node:2: unknown modifier "2"`,
		"ppr:1:core:2":        `--map-by ppr:1:core:2: unknown modifier "2"`,
	} {
		words := strings.Fields(request)
		by, err := ParseMapBy(words[0])
		req := Request{MapBy: by, Ranks: len(strings.Fields(want))}
		if err == nil && len(words) > 1 {
			req.BindTo, err = ParseBindTo(words[1])
		}
		var layout Layout
		if err == nil {
			layout, err = Map(req, []Machine{machine})
		}
		if strings.HasPrefix(want, "--") {
			require.ErrorContains(t, err, want, request)
			continue
		}
		require.NoError(t, err, request)
		var sets []string
		for _, r := range layout.Ranks {
			sets = append(sets, r.CPUs.String())
		}
		require.Equal(t, want, strings.Join(sets, " "), request)
	}
}
