package wire

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test -run ^TestFramesDocs$ -count=1 . -update

var update = flag.Bool("update", false, "write the tables of docs/internals/security.md again")

// notes are what handlers check beside the table, for the documentation.
var notes = map[Type]string{
	TypeOpened:   "addresses of that node only",
	TypeNotice:   "shown with the node's name; only the first 1000 of an attempt are",
	TypeOutput:   "within the credit of its stream, for ranks of that node",
	TypeEnded:    "each rank of that node, and each stream, once",
	TypeCredit:   "at most what the node was sent of standard input",
	TypeSignal:   "without a token only signals that end the job, as every lost node does",
	TypeExchange: "what is kept for one node is bounded",
	TypeSpawn: "refused unless a running rank of that node asks in a job that is known to use MPI; nodes that joined " +
		"get ranks on themselves alone, without a token none",
}

// TestFramesDocs keeps the tables of docs/internals/security.md equal to those in authority.go.
func TestFramesDocs(t *testing.T) {
	const file = "../../../docs/internals/security.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "<!-- frames -->\n")
	require.True(t, found)
	_, after, found := strings.Cut(rest, "<!-- /frames -->\n")
	require.True(t, found)
	want := before + "<!-- frames -->\n" + frameTables() + "<!-- /frames -->\n" + after
	if *update {
		text = []byte(want)
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
	require.Equal(t, want, string(text), "run make docs")
}

func frameTables() string {
	var b strings.Builder
	b.WriteString("\nWhat an agent may send to the launcher:\n\n" +
		"| frame | from | when | only as the answer to | at most | bytes | and |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	writeTable(&b, &fromAgent, true)
	b.WriteString("\nWhat the launcher may send to an agent:\n\n" +
		"| frame | to | when | only as the answer to | at most | bytes |\n| --- | --- | --- | --- | --- | --- |\n")
	writeTable(&b, &fromHead, false)
	b.WriteString("\n")
	return b.String()
}

func writeTable(b *strings.Builder, table *table, fromAgents bool) {
	for i := range table.rules {
		r, t := &table.rules[i], Type(i)
		if r.from == 0 {
			continue
		}
		var questions []string
		for _, q := range r.answers {
			questions = append(questions, q.String())
		}
		fmt.Fprintf(b, "| %s | %s |", t, peersOf(r.from))
		most := ""
		if r.most > 0 {
			most = fmt.Sprintf("%d an attempt", r.most)
		}
		if len(r.answers) > 0 {
			most = "1 each"
		}
		fmt.Fprintf(b, " %s | %s | %s | %s |", statesOf(r.when), strings.Join(questions, ", "), most, sizeOf(r.body))
		if fromAgents {
			fmt.Fprintf(b, " %s |", notes[t])
		}
		b.WriteString("\n")
	}
}

func peersOf(p Peer) string {
	switch p {
	case anyPeer:
		return "any"
	case hasJoined:
		return "nodes that joined"
	case PeerLocal | hasJoined:
		return "this process, nodes that joined"
	case PeerEngine:
		return "agents of a resource manager"
	case anyPeer &^ hasJoined:
		return "any but nodes that joined"
	}
	panic(p)
}

func statesOf(s State) string {
	var list []string
	for _, c := range []struct {
		states State
		name   string
	}{
		{StateConnected, "before ranks start"},
		{started, "while ranks run"},
		{StateStartedMPI, "while ranks run that MPI is served to"},
		{StateCleanedUp, "after they are gone"},
	} {
		if s&c.states == c.states && (c.states != StateStartedMPI || s&StateStarted == 0) {
			list = append(list, c.name)
		}
	}
	if s == anyState {
		return "always"
	}
	return strings.Join(list, ", ")
}

func sizeOf(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprint(n)
}
