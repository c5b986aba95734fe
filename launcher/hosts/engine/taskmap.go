package engine

import (
	"encoding/json"
	"fmt"
)

// taskmap parses a task map of Flux (RFC 34), and returns the node of each task.
//
//	map   := [block, …] | {"version": 1, "map": [block, …]}
//	block := [first node, number of nodes, tasks on each, repetitions]
func taskmap(text string, tasks int) ([]int, error) {
	var blocks [][4]int
	if err := json.Unmarshal([]byte(text), &blocks); err != nil {
		var versioned struct {
			Map [][4]int `json:"map"`
		}
		if json.Unmarshal([]byte(text), &versioned) != nil || versioned.Map == nil {
			return nil, fmt.Errorf("%.80q is not a task map: %w", text, err)
		}
		blocks = versioned.Map
	}
	var nodes []int
	for _, b := range blocks {
		some, err := expandBlock(b, tasks-len(nodes))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, some...)
	}
	if len(nodes) != tasks {
		return nil, fmt.Errorf("%.80q has %d tasks, and the job has %d", text, len(nodes), tasks)
	}
	return nodes, nil
}

// expandBlock returns the nodes of a block's tasks, at most room.
func expandBlock(b [4]int, room int) ([]int, error) {
	first, count, each, repeat := b[0], b[1], b[2], b[3]
	if first < 0 || min(count, each, repeat) < 1 || max(count, each, repeat) > room || count*each*repeat > room {
		return nil, fmt.Errorf("%v is not a block of at most %d tasks", b, room)
	}
	nodes := make([]int, 0, count*each*repeat)
	for range repeat {
		for node := first; node < first+count; node++ {
			for range each {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes, nil
}
