package launcher_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher"
	"gorun/launcher/record"
)

// Ranks that end at once have started before, by the times of the events.
func TestRanksStartBeforeTheyEnd(t *testing.T) {
	var mu sync.Mutex
	events := map[string][]record.Event{}
	run(t, specOf("hello", 8), func(o *launcher.Options) {
		o.Events = func(e record.Event) {
			mu.Lock()
			defer mu.Unlock()
			events[e.Event] = append(events[e.Event], e)
		}
	})
	require.Len(t, events[record.RankStarted], 8)
	require.Len(t, events[record.RankEnded], 8)
	for _, started := range events[record.RankStarted] {
		for _, ended := range events[record.RankEnded] {
			assert.False(t, ended.At.Before(started.At), "%v, %v", started, ended)
		}
	}
}
