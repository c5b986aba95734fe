package wire

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// largeWorld has 10,000 ranks on 1,250 nodes, each bound to some CPUs.
func largeWorld() world.World {
	w := world.World{Name: "large", MapBy: "BYNUMA", RankBy: "SPAN", BindTo: "CORE"}
	for rank := range 10_000 {
		local := rank % 8
		w.Ranks = append(w.Ranks, world.Rank{
			Job: rank, Host: rank / 8, Node: rank / 8, LocalRank: local, NodeRank: local,
			CPUs: fmt.Sprintf("%d-%d", 8*local, 8*local+7), Locality: fmt.Sprintf("NM0:SK0:L30:L20-7:L10-7:CR%d-%d:HT0-15",
				8*local, 8*local+7),
		})
	}
	return w
}

// Every node gets every rank.
func TestRanksOfWorldsAreSmall(t *testing.T) {
	w := largeWorld()
	b := EncodeWorlds([]world.World{w})
	assert.Less(t, len(b), 8*len(w.Ranks), "a byte for each number, and for which text it is")
	var got MPI
	require.NoError(t, readMessage(b, &got.Worlds))
	assert.Equal(t, []world.World{w}, got.Worlds)
}

// A message to all nodes is encoded once.
func TestEncodedWorldsAreSentAsTheyAre(t *testing.T) {
	worlds := []world.World{largeWorld(), {Name: "small", Ranks: []world.Rank{{Job: 10_000}}}, {Name: "none"}}
	for node := range 2 {
		m := Start{MPI: MPI{Offered: true, Node: node, NumRanks: 10_001, Worlds: worlds}}
		spliced := Start{MPI: MPI{Offered: true, Node: node, NumRanks: 10_001, EncodedWorlds: EncodeWorlds(worlds)}}
		for _, sent := range []Start{m, spliced} {
			var got Start
			require.NoError(t, Frame{Type: TypeStart, Body: appendMessage(nil, &sent)}.Decode(&got))
			assert.Equal(t, m, got)
		}
	}
	broken := Start{MPI: MPI{EncodedWorlds: []byte{9}}}
	assert.Error(t, Frame{Type: TypeStart, Body: appendMessage(nil, &broken)}.Decode(&Start{}))
}
