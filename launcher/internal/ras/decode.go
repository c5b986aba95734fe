package ras

import (
	"encoding/json"
	"fmt"
)

// Decode reads a Status in JSON from the agent of another host. It refuses more ranks than NCCL can report, because
// callers count them one by one.
func Decode(text []byte) (Status, error) {
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("decode what NCCL's RAS port answered: %w", err)
	}
	rows := len(s.Missing) + len(s.Dead)
	for i := range s.Communicators {
		c := &s.Communicators[i]
		rows += len(c.Ranks) + len(c.Tallies)
		if c.Size < 0 || c.Size > maxRanks || rows > maxRanks || i == maxCommunicators {
			return Status{}, fmt.Errorf("decode what NCCL's RAS port answered: it has more than %d ranks or %d communicators",
				maxRanks, maxCommunicators)
		}
	}
	if rows > maxRanks {
		return Status{}, fmt.Errorf("decode what NCCL's RAS port answered: it has more than %d processes", maxRanks)
	}
	return s, nil
}
