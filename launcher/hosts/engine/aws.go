package engine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findBatch finds a multi-node parallel job of AWS Batch, in which each node runs the same command. The main node
// becomes node 0, whatever its index. It is the only one that is not given its address.
func findBatch(r *reader) *Found {
	if !r.set("AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES") {
		return nil
	}
	index, number := r.number("AWS_BATCH_JOB_NODE_INDEX", 0), r.number("AWS_BATCH_JOB_NUM_NODES", 1)
	main := r.number("AWS_BATCH_JOB_MAIN_NODE_INDEX", 0)
	id, _, _ := strings.Cut(r.get("AWS_BATCH_JOB_ID"), "#") // ID#INDEX
	t := nodeTask(index, number, id)
	switch {
	case index == main:
		t.Node = 0
	case index < main:
		t.Node = index + 1
	}
	t.Rank, t.NodeID = t.Node, strconv.Itoa(index)
	f := &Found{Job: "AWS Batch job " + id, JobID: id, Why: r.from("AWS_BATCH_JOB_NODE_INDEX") + " and " +
		r.from("AWS_BATCH_JOB_NUM_NODES"), Task: t}
	if t.Addr = r.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"); index == main {
		t.Addr = r.get("HOSTNAME") // a name covers all addresses of the host
	} else if t.Addr == "" {
		return r.fail("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set, and this is not the main node "+
			"(index %d)", main)
	}
	return r.check(f)
}

// nodeTask returns one of a number of tasks, each alone on its node.
func nodeTask(node, number int, step string) *Task {
	return &Task{Rank: node, NumTasks: number, LocalTasks: 1, Node: node, NumNodes: number, Step: step}
}

// findSageMaker finds a training job of SageMaker, in which each host runs the same command. Its toolkit sets variables
// from /opt/ml/input/config/resourceconfig.json, with the hosts sorted by name.
func findSageMaker(r *reader) *Found {
	if !r.set("SM_HOSTS", "SM_CURRENT_HOST") {
		return nil
	}
	var names []string
	if err := json.Unmarshal([]byte(r.get("SM_HOSTS")), &names); err != nil {
		return r.fail("%s: %w", r.from("SM_HOSTS"), err)
	}
	here := slices.Index(names, r.get("SM_CURRENT_HOST"))
	if here < 0 {
		return r.fail("%s is not in %s", r.from("SM_CURRENT_HOST"), r.from("SM_HOSTS"))
	}
	slots, _ := r.optional("SM_NUM_GPUS")
	id := r.get("TRAINING_JOB_NAME")
	f := &Found{
		Job: strings.TrimSpace("SageMaker job " + id), JobID: id,
		Why:  r.from("SM_HOSTS") + " and " + r.from("SM_CURRENT_HOST"),
		From: r.from("SM_HOSTS"), Task: nodeTask(here, len(names), id),
	}
	for _, name := range names {
		if err := checkHost(name); err != nil {
			return r.fail("%s: %w", r.from("SM_HOSTS"), err)
		}
		f.Hosts = append(f.Hosts, hosts.Host{Name: name, Slots: slots, From: "SM_HOSTS"})
	}
	f.Task.Addr, f.Task.NodeID = names[0], names[here]
	return f
}
