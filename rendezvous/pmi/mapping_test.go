package pmi

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestProcessMapping(t *testing.T) {
	for want, hosts := range map[string][]int{
		"(vector,(0,1,4))":                 {0, 0, 0, 0},
		"(vector,(0,2,2))":                 {0, 0, 1, 1},
		"(vector,(0,1,3),(1,1,1))":         {0, 0, 0, 1},
		"(vector,(0,2,1),(0,2,1))":         {0, 1, 0, 1},
		"(vector,(0,1,1),(1,1,2),(0,1,1))": {0, 1, 1, 0},
		"(vector,(1,1,1),(0,1,1))":         {1, 0},
		"(vector,(0,3,2),(3,1,1))":         {0, 0, 1, 1, 2, 2, 3},
	} {
		require.Equal(t, want, processMapping(newWorld("w", hosts...)))
	}
}

// Clients expand the mapping to the original hosts, or there is no mapping.
func TestMappingComesBack(t *testing.T) {
	rng := testneeds.Rand(t)
	fits := 0
	for range testneeds.Count(300, 10_000) {
		hosts := make([]int, 1+rng.IntN(200))
		for i := range hosts {
			hosts[i] = rng.IntN(1 + rng.IntN(5))
		}
		if rng.IntN(2) == 0 {
			slices.Sort(hosts)
		}
		text := processMapping(newWorld("w", hosts...))
		if text == "" {
			continue
		}
		fits++
		require.Less(t, len(text), mappingMax+2)
		require.Equal(t, hosts, ranksOf(t, text), text)
	}
	require.Positive(t, fits)
	alternating := make([]int, 1024)
	for i := range alternating {
		alternating[i] = i % 2
	}
	require.Empty(t, processMapping(newWorld("w", alternating...)), "too long for old clients' lines")
}

// ranksOf expands a mapping like a client, once through its list.
func ranksOf(t *testing.T, text string) (hosts []int) {
	rest := text[len("(vector") : len(text)-1]
	for rest != "" {
		var first, count, each int
		_, err := fmt.Sscanf(rest, ",(%d,%d,%d)", &first, &count, &each)
		require.NoError(t, err)
		for host := range count {
			for range each {
				hosts = append(hosts, first+host)
			}
		}
		rest = rest[len(fmt.Sprintf(",(%d,%d,%d)", first, count, each)):]
	}
	return hosts
}

// The lengths are from a reply of Intel's own server.
func TestRanksToHosts(t *testing.T) {
	w := newWorld("w", 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1)
	w.Hosts = []string{"compute-0-3", "compute-0-5"}
	require.Equal(t, "cmd=put_ranks2hosts 60 2\n11 compute-0-3 0,1,2,3,4,5, 11 compute-0-5 6,7,8,9,10,11, \n",
		ranksToHosts(w))
}
