package record_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"gorun/launcher/record"
)

// A job records what happens, and the user looks at it later.
func Example() {
	records, _ := os.MkdirTemp("", "records")
	defer os.RemoveAll(records)
	var s record.Stream
	add := func(line any) { s.Add(func(w io.Writer) error { return json.NewEncoder(w).Encode(line) }) }
	add(record.Start{Command: []string{"gorun", "train.py"}, Began: time.Now()})
	add(record.Event{Event: record.JobEnded, Text: "done"})
	s.Start(func() (io.WriteCloser, error) { return record.Create(records, "4b1d0c5e9f8a") })
	_ = s.Close(time.Second)
	for _, r := range record.List(records) {
		fmt.Println(r.ID, r.Command, r.End.Text)
	}
	// Output: 4b1d0c5e9f8a [gorun train.py] done
}
