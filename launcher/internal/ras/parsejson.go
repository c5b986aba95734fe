package ras

import (
	"encoding/json"
	"fmt"
)

// ParseJSON reads the status of NCCL 2.28.7 and later.
func ParseJSON(text []byte) (Status, error) {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return Status{}, fmt.Errorf("the answer of NCCL's RAS port: %w", err)
	}
	s := Status{Version: short(a.Version)}
	rows := 0
	for _, c := range a.Communicators[:min(len(a.Communicators), maxCommunicators)] {
		m := Communicator{Hash: short(c.Hash), Size: min(max(c.Size, 0), maxRanks)}
		for _, r := range c.Ranks {
			m.Ranks = append(m.Ranks, r.rank())
		}
		for _, r := range c.Missing {
			rank := r.rank()
			rank.Missing, rank.Dead = true, r.Status.Dead
			m.Ranks = append(m.Ranks, rank)
		}
		if rows += len(m.Ranks); rows > maxRanks {
			return s, fmt.Errorf("the answer of NCCL's RAS port has more than %d ranks", maxRanks)
		}
		s.Communicators = append(s.Communicators, m)
	}
	return s, nil
}

// answer is the part of the status that is used.
type answer struct {
	Version       string `json:"nccl_version"`
	Communicators []struct {
		Hash    string       `json:"hash"`
		Size    int          `json:"size"`
		Ranks   []answerRank `json:"ranks"`
		Missing []answerRank `json:"missing_ranks"`
	} `json:"communicators"`
}

type answerRank struct {
	Rank   int    `json:"rank"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Device int    `json:"cuda_dev"`
	Status struct {
		State    int  `json:"init_state"`
		Error    int  `json:"async_error"`
		Finalize bool `json:"finalize_called"`
		Destroy  bool `json:"destroy_flag"`
		Abort    bool `json:"abort_flag"`
		Dead     bool `json:"considered_dead"`
	} `json:"status"`
	Counts map[string]uint64 `json:"collective_counts"`
}

func (r *answerRank) rank() Rank {
	return Rank{
		Rank: r.Rank, World: -1, Host: short(r.Host), PID: r.PID, Device: r.Device, Counts: r.Counts,
		State: r.Status.State, Error: r.Status.Error, Finalize: r.Status.Finalize, Destroy: r.Status.Destroy,
		Abort: r.Status.Abort,
	}
}
