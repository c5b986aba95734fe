package ras_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/ras"
	"gorun/launcher/internal/ras/rastest"
)

func recorded(t testing.TB, name string) []byte {
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return text
}

// What NCCL 2.30.7 said of four ranks, and what is made of it.
func TestFindings(t *testing.T) {
	for _, tc := range []struct {
		file string
		want []string
	}{
		{"behind.json", []string{"rank 3 (node1) is behind: 41 AllReduce, the others 42"}},
		{
			"stopped.json",
			[]string{"1 of 4 ranks does not answer: [2]", "rank 3 (node1) is behind: 41 AllReduce, the others 42"},
		},
		{"missing.json", []string{"1 of 4 ranks does not answer: [2]", "rank 1 (node0) reports: remote process error"}},
		{"behind.txt", []string{"rank 3 (node1) is behind: 41 AllReduce, the others 42"}},
		{"stopped.txt", []string{
			"rank 3 (node1) is behind: 41 AllReduce, the others 42",
			"1 process does not answer: pid 29785 on 127.0.0.1",
		}},
		{"dead.txt", []string{
			"rank 3 (node1) is behind: 41 AllReduce, the others 42",
			"1 process cannot be reached any more: pid 29785 on 127.0.0.1",
		}},
		{"missing.txt", []string{"rank 1 (node0) reports: remote process error"}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			parse := ras.ParseText
			if strings.HasSuffix(tc.file, ".json") {
				parse = ras.ParseJSON
			}
			s, err := parse(recorded(t, tc.file))
			require.NoError(t, err)
			assert.Equal(t, "2.30.7", s.Version)
			require.Len(t, s.Communicators, 1)
			assert.Equal(t, "0x1234567890abcdef", s.Communicators[0].Hash)
			assert.Equal(t, 4, s.Communicators[0].Size)
			assert.True(t, s.AssignWorldRanks(func(r *ras.Rank) int { return r.Rank }))
			assert.Equal(t, tc.want, s.Findings(ras.View{World: 4, Host: func(rank int) string {
				return []string{"node0", "node0", "node1", "node1"}[rank]
			}}))
		})
	}
}

// comm is a communicator of ranks with these counts of AllReduce.
func comm(hash string, size int, counts ...uint64) ras.Communicator {
	c := ras.Communicator{Hash: hash, Size: size}
	for i, n := range counts {
		c.Ranks = append(c.Ranks, ras.Rank{Rank: i, World: i, Counts: map[string]uint64{"AllReduce": n}})
	}
	return c
}

func TestFindingsOfPlainData(t *testing.T) {
	other := comm("0x1", 3, 5, 5, 5)
	other.Ranks[2].Counts = map[string]uint64{"AllReduce": 4, "AllGather": 1}
	other.Ranks[0].Counts["AllGather"], other.Ranks[1].Counts["AllGather"] = 0, 0
	making := comm("0x1", 2, 0, 0)
	making.Ranks[1].State = 7
	dead := comm("0x1", 2, 3)
	dead.Ranks = append(dead.Ranks, ras.Rank{Rank: 1, World: -1, Missing: true, Dead: true})
	moving := comm("0x1", 2, 8, 9)
	moving.Progressing = true
	for name, tc := range map[string]struct {
		comms []ras.Communicator
		world int
		want  []string
	}{
		"nobody": {nil, 2, nil},
		"even": {
			[]ras.Communicator{comm("0x1", 2, 7, 7)}, 2, []string{"all 2 ranks are equally far: 7 AllReduce"},
		},
		"begun nothing": {
			[]ras.Communicator{comm("0x1", 2, 0, 0)}, 2, []string{"none of the 2 ranks has begun a collective"},
		},
		"half": {
			[]ras.Communicator{comm("0x1", 2, 7, 6)}, 2, []string{"rank 1 is behind: 6 AllReduce, the others 7"},
		},
		"one ahead": {
			[]ras.Communicator{comm("0x1", 3, 7, 6, 6)}, 3, []string{"rank 0 is ahead: 7 AllReduce, the others 6"},
		},
		"two behind": {
			[]ras.Communicator{comm("0x1", 5, 7, 6, 7, 6, 7)}, 5, []string{"ranks [1,3] are behind: 6 AllReduce, the others 7"},
		},
		"other collectives": {
			[]ras.Communicator{other},
			3,
			[]string{"rank 2 called other collectives: 1 AllGather and 4 AllReduce, the others 0 and 5"},
		},
		"behind in two collectives": {
			[]ras.Communicator{{
				Partial: true, Tallies: []ras.Tally{{"AllReduce", 42, 7}, {"Broadcast", 5, 7}},
				Ranks: []ras.Rank{{World: 3, Counts: map[string]uint64{"Broadcast": 4}}},
			}},
			1,
			[]string{"rank 3 is behind: 4 Broadcast, the others 5"},
		},
		"still made": {
			[]ras.Communicator{making}, 2, []string{"rank 1 reports: the communicator is still being made"},
		},
		"dead":    {[]ras.Communicator{dead}, 2, []string{"1 of 2 ranks is dead: [1]"}},
		"goes on": {[]ras.Communicator{moving}, 2, []string{"ranks still begin collectives"}},
		"a part of the job": {
			[]ras.Communicator{comm("0x9", 2, 4, 3), comm("0x1", 4, 7, 7, 7, 7)},
			4,
			[]string{"rank 1 is behind: 3 AllReduce, the others 4"},
		},
		"a part that lacks": {
			[]ras.Communicator{comm("0x9", 2, 4), comm("0x1", 4, 7, 7, 7, 7)},
			4,
			[]string{"1 of 2 ranks of communicator 0x9 does not answer: [1]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := ras.Status{Communicators: tc.comms}
			assert.Equal(t, tc.want, s.Findings(ras.View{World: tc.world}))
		})
	}
}

func TestCompareAndMerge(t *testing.T) {
	before, now := ras.Status{Communicators: []ras.Communicator{comm("a", 2, 1, 1), comm("b", 2, 1, 1)}},
		ras.Status{Communicators: []ras.Communicator{comm("a", 2, 1, 1), comm("b", 2, 1, 2)}}
	now.Compare(&before)
	assert.False(t, now.Communicators[0].Progressing)
	assert.True(t, now.Communicators[1].Progressing)

	// Each node knows which ranks of the job its own are.
	first, second := ras.Status{Version: "2.30.7", Communicators: []ras.Communicator{comm("a", 2, 5, 5)}},
		ras.Status{Communicators: []ras.Communicator{comm("a", 2, 5, 5), comm("b", 1, 1)}}
	first.Communicators[0].Ranks[1].World = -1
	second.Communicators[0].Ranks[0].World = -1
	second.Communicators[0].Ranks[1].World = 9
	second.DropUnassigned()
	require.Len(t, second.Communicators[0].Ranks, 1)
	all := ras.Merge([]ras.Status{first, second})
	assert.Equal(t, "2.30.7", all.Version)
	require.Len(t, all.Communicators, 2)
	require.Len(t, all.Communicators[0].Ranks, 2)
	assert.Equal(t, []int{0, 9}, []int{all.Communicators[0].Ranks[0].World, all.Communicators[0].Ranks[1].World})
}

// It goes over frames as JSON.
func TestStatusIsData(t *testing.T) {
	s, err := ras.ParseJSON(recorded(t, "behind.json"))
	require.NoError(t, err)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var again ras.Status
	require.NoError(t, json.Unmarshal(text, &again))
	assert.Equal(t, s, again)
	assert.Equal(t, "2.30.7", s.Version)
	assert.Equal(t, []string{"rank 3 (pid 29778 on 127.0.0.1) is behind: 41 AllReduce, the others 42"},
		s.Findings(ras.View{World: 4}))
}

func TestAsk(t *testing.T) {
	answer := rastest.Server{JSON: string(recorded(t, "behind.json")), Text: string(recorded(t, "dead.txt"))}
	s, err := ras.Query(t.Context(), answer.Start(t))
	require.NoError(t, err)
	assert.Len(t, s.Communicators[0].Ranks, 4)
	assert.Equal(t, int32(1), answer.Asked.Load())

	old := rastest.Server{Text: string(recorded(t, "dead.txt"))}
	s, err = ras.Query(t.Context(), old.Start(t))
	require.NoError(t, err)
	assert.Len(t, s.Dead, 1)

	// A stopped process takes connections and says nothing; another one is found.
	silent := rastest.Server{JSON: answer.JSON, Silent: 2}
	s, err = ras.Query(t.Context(), silent.Start(t))
	require.NoError(t, err)
	assert.Equal(t, "2.30.7", s.Version)
}

func TestAskIsBounded(t *testing.T) {
	silent := rastest.Server{Silent: 1 << 30}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := ras.Query(ctx, silent.Start(t))
	require.ErrorIs(t, err, ras.ErrNoAnswer)
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = ras.Query(ctx, new(rastest.Server).Start(t))
	require.ErrorIs(t, err, ras.ErrNoAnswer, "each process ends before it reports the status")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, err = ras.Query(t.Context(), listener.Addr().String())
	require.ErrorContains(t, err, "refused")
}

// Something else listens there.
func TestAskAnotherServer(t *testing.T) {
	for name, tc := range map[string]struct{ says, want string }{
		"greets":       {"SSH-2.0-OpenSSH_9.6\r\n", `"SSH-2.0-OpenSSH_9.6" is not an answer of NCCL`},
		"long-winded":  {strings.Repeat("x", 4096), "too long"},
		"broken later": {"SERVER PROTOCOL 2\nOK\nOK\n{", "the answer of NCCL's RAS port"},
		"other text":   {"SERVER PROTOCOL 2\nOK\nERROR: Unknown command\nhello\n", "does not begin with a version"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(tc.says))
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = conn.Read(make([]byte, 1)) // until it goes
				for err == nil {
					_, err = conn.Read(make([]byte, 4096))
				}
				_ = conn.Close()
			}()
			_, err = ras.Query(t.Context(), listener.Addr().String())
			require.ErrorContains(t, err, tc.want)
			require.NoError(t, listener.Close())
			<-done
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{
		"behind.json", "stopped.json", "missing.json", "behind.txt", "stopped.txt",
		"dead.txt", "missing.txt",
	} {
		f.Add(recorded(f, name))
	}
	f.Add([]byte("NCCL version 2.26.2 compiled with CUDA 12.8\n#0-0 (0) MISMATCH\n" +
		"  Communicator ranks have different collective operation counts\n" +
		"  Rank 1 has not launched any operations -- [process information not found]\n"))
	f.Add([]byte(`{"communicators":[{"size":9223372036854775807,"ranks":[{"rank":-1}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) (ras.Status, error){ras.ParseJSON, ras.ParseText} {
			s, err := parse(text)
			if err != nil {
				continue
			}
			lines := s.Findings(ras.View{World: 4})
			if len(lines) > 8 {
				t.Fatalf("%d lines", len(lines))
			}
			s.Compare(&s)
			ras.Merge([]ras.Status{s, s})
		}
	})
}
