package quarantine_test

import (
	"fmt"
	"os"
	"time"

	"gorun/launcher/quarantine"
)

func Example() {
	state, _ := os.MkdirTemp("", "state")
	defer os.RemoveAll(state)
	file := quarantine.Path(state, "/home/ann")
	now := time.Now()
	for range quarantine.Limit {
		_, _ = quarantine.Fail(file, "node2", "its connection ended", now)
	}
	known, _ := quarantine.Read(file, now)
	fmt.Println(known[0].Name, known[0].Until.Sub(now))
	// Output: node2 1h0m0s
}
