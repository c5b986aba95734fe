package ras

import (
	"encoding/json"
	"fmt"
)

// Decode reads a Status as JSON, as the agent of another host sends it. One that no answer
// of NCCL's comes to is refused: ranks are counted one by one.
func Decode(text []byte) (Status, error) {
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("decode what NCCL's RAS port answered: %w", err)
	}
	rows := len(s.Missing) + len(s.Dead)
	for i := range s.Communicators {
		c := &s.Communicators[i]
		rows += len(c.Ranks) + len(c.Tallies)
		if c.Size < 0 || c.Size > mostRanks || rows > mostRanks || i == mostCommunicators {
			return Status{}, fmt.Errorf("decode what NCCL's RAS port answered: it has more than %d ranks or %d communicators",
				mostRanks, mostCommunicators)
		}
	}
	if rows > mostRanks {
		return Status{}, fmt.Errorf("decode what NCCL's RAS port answered: it has more than %d processes", mostRanks)
	}
	return s, nil
}
