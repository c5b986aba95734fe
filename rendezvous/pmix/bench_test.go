package pmix

import (
	"strings"
	"sync"
	"testing"
)

// BenchmarkFence measures a commit of 100 bytes and a fence that collects, on 64 nodes with 8 ranks each.
func BenchmarkFence(b *testing.B) {
	w := spread("gorun-1", 512, 64)
	all := start(b, 64, w)
	ranks := all.joinAll(w)
	text := strings.Repeat("x", 100)
	for b.Loop() {
		var done sync.WaitGroup
		for _, c := range ranks {
			done.Go(func() {
				c.commit(scopeGlobal, "k", text)
				c.status(commandFence, fenceBody(everybody(w), collecting))
			})
		}
		done.Wait()
	}
}

// BenchmarkJobInfo measures the first request of one of 512 ranks.
func BenchmarkJobInfo(b *testing.B) {
	w := spread("gorun-1", 512, 64)
	c := start(b, 1, w).join(w, 0)
	for b.Loop() {
		c.call(commandJobInfo, nil)
	}
}
