package process_test

import (
	"fmt"
	"os"
	"testing"

	"gorun/launcher/internal/process"
)

// BenchmarkLaunch starts N × /bin/true, with pipes or with unused sockets, and waits for their ends.
func BenchmarkLaunch(b *testing.B) {
	for _, n := range []int{1, 4, 16, 64, 256} {
		for _, sockets := range []bool{false, true} {
			b.Run(fmt.Sprint("ranks=", n, "/sockets=", sockets), func(b *testing.B) { launchTrue(b, n, sockets) })
		}
	}
}

func launchTrue(b *testing.B, n int, sockets bool) {
	ranks := make([]process.Rank, n)
	for id := range ranks {
		ranks[id] = piped(id)
	}
	common := process.Common{Env: os.Environ(), Path: "/bin/true", Argv: []string{"true"}, Sockets: sockets}
	for b.Loop() {
		rec := newRecorder()
		g := process.NewGroup(rec)
		if err := g.Start(common, ranks); err != nil {
			b.Fatal(err)
		}
		for _, r := range ranks {
			rec.await(r)
		}
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
