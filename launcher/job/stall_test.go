package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/spec"
)

func TestStallInOneLine(t *testing.T) {
	waits := func(key string, ranks ...int) (list []spec.StoreWait) {
		for _, r := range ranks {
			list = append(list, spec.StoreWait{Rank: r, Keys: []string{key}})
		}
		return list
	}
	asleep := func(rank int) spec.Absence { return spec.Absence{Rank: rank, PID: 100 + rank, State: "sleeping"} }
	for want, s := range map[string]spec.Stall{
		`no rendezvous progress for 30s: 7 of 8 ranks wait for "default_pg/0//cpu//0/5"; missing rank 5 (pid 105, ` +
			`sleeping, 0 % CPU)`: {
			Waiting: waits("default_pg/0//cpu//0/5", 0, 1, 2, 3, 4, 6, 7), Missing: []spec.Absence{asleep(5)},
		},
		`no rendezvous progress for 30s: all 3 ranks wait for "b" and 1 other key, which no rank sets`: {
			Waiting: append(waits("a", 0), waits("b", 1, 2)...),
		},
		`no rendezvous progress for 30s: 1 of 7 ranks wait for "a" and 3 other keys; missing rank 1 (pid 101, ` +
			`sleeping, 0 % CPU), ` +
			`rank 2 (pid 102, sleeping, 0 % CPU), rank 3 (pid 103, sleeping, 0 % CPU), ranks [4-6]`: {
			Waiting: []spec.StoreWait{{Rank: 0, Keys: []string{"a"}, More: 3}},
			Missing: []spec.Absence{asleep(1), asleep(2), asleep(3), asleep(4), asleep(5), asleep(6)},
		},
		`no rendezvous progress for 30s: 1 process outside the job waits for "a"; missing rank 0 (not started)`: {
			Waiting: waits("a", -1), Missing: []spec.Absence{{Rank: 0, State: "not started", CPU: -1}},
		},
	} {
		s.Waited = Seconds(30*time.Second + time.Millisecond)
		assert.Equal(t, want, (&Stall{Stall: s}).String())
	}
}
