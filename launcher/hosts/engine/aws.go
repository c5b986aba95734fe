package engine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findBatch knows AWS Batch's multi-node parallel jobs, where each node runs the same
// line. The main node, which is node 0 here whatever its index, is the only one that
// its address is not given to.
func findBatch(r *reader) *Found {
	if !r.set("AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES") {
		return nil // an array job has AWS_BATCH_JOB_ARRAY_INDEX
	}
	index, number := r.number("AWS_BATCH_JOB_NODE_INDEX", 0), r.number("AWS_BATCH_JOB_NUM_NODES", 1)
	main := r.number("AWS_BATCH_JOB_MAIN_NODE_INDEX", 0)
	id, _, _ := strings.Cut(r.get("AWS_BATCH_JOB_ID"), "#") // each node has #INDEX behind it
	t := oneOf(index, number, id)
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
		t.Addr = r.get("HOSTNAME") // a name stands for all addresses of the host
	} else if t.Addr == "" {
		return r.fail("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set, and this is not the main node "+
			"(index %d)", main)
	}
	return r.check(f)
}

// oneOf is one of a number of tasks, each alone on its node.
func oneOf(node, number int, step string) *Task {
	return &Task{Rank: node, NumTasks: number, LocalTasks: 1, Node: node, NumNodes: number, Step: step}
}

// findSageMaker knows a training job of SageMaker's, where each host runs the same
// line. Its training toolkit has put /opt/ml/input/config/resourceconfig.json into
// variables; the hosts are in the order of their names there.
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
	slots := 0
	if r.set("SM_NUM_GPUS") {
		slots = r.number("SM_NUM_GPUS", 0)
	}
	id := r.get("TRAINING_JOB_NAME")
	f := &Found{
		Job: strings.TrimSpace("SageMaker job " + id), JobID: id,
		Why:  r.from("SM_HOSTS") + " and " + r.from("SM_CURRENT_HOST"),
		From: r.from("SM_HOSTS"), Task: oneOf(here, len(names), id),
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
