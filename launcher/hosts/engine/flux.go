package engine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findFlux finds an instance of flux alloc, flux batch or flux start, or a task of a Flux job.
//
// An instance's initial program only has FLUX_URI: Flux removes FLUX_JOB_ID and SLURM_* (flux-environment(7)). If they
// are set, this is a task of a job. The command flux lists the hosts.
func findFlux(r *reader) *Found {
	switch {
	case !r.set("FLUX_URI"):
		return nil
	case r.set("FLUX_JOB_ID", "FLUX_TASK_RANK"):
		return r.fluxTask()
	}
	if _, err := r.LookPath("flux"); err != nil {
		return r.fail("%s, and the command flux, which lists the hosts, is not in PATH", r.from("FLUX_URI"))
	}
	f := &Found{
		Job: "Flux instance " + r.get("FLUX_URI"), JobID: r.get("FLUX_URI"), Why: r.from("FLUX_URI"),
		From: "flux getattr hostlist",
	}
	all := r.expand(f.From, r.flux("getattr", "hostlist"))
	if id := (&reader{World: r.World}).flux("getattr", "jobid"); id != "" { // an outermost instance has none
		f.Job, f.JobID = "Flux job "+id, id
	}
	ranks := make(map[string]int, len(all)) // the first broker of each host
	for rank, h := range slices.Backward(all) {
		ranks[h.Name] = rank
	}
	f.Hosts = withoutSlots(hosts.Merge(all)) // Flux counts cores, not tasks
	if path := r.command(f, "flux"); path != "" {
		f.start = func(wanted []hosts.Host) Start {
			return Start{Once: fluxExec(path, len(all), wanted, ranks)}
		}
	}
	return f
}

// fluxExec runs a command on each broker, one per host, and sends standard input to all (flux-exec(1)). flux run would,
// too, but as a job of the instance: it waits for free cores, binds its tasks, and hides GPUs.
func fluxExec(path string, brokers int, wanted []hosts.Host, ranks map[string]int) []string {
	argv := []string{path, "exec"}
	if len(wanted) < brokers {
		some := make([]string, len(wanted))
		for i, h := range wanted {
			some[i] = strconv.Itoa(ranks[h.Name])
		}
		argv = append(argv, "--rank="+strings.Join(some, ","))
	}
	return argv
}

// flux returns the output of a Flux command.
func (r *reader) flux(words ...string) string {
	line := "flux " + strings.Join(words, " ")
	if r.Output == nil {
		r.fail("%s: cannot run commands here", line)
		return ""
	}
	out, err := r.Output(append([]string{"flux"}, words...)...)
	if err != nil {
		r.fail("%s, and %s: %w", r.from("FLUX_URI"), line, err)
	}
	return strings.TrimSpace(string(out))
}

// expand parses a host list of Flux (RFC 29), whose grammar is Slurm's.
func (r *reader) expand(from, list string) []hosts.Host {
	names, err := hosts.Expand(list)
	switch {
	case err != nil:
		r.fail("%s: %w", from, err)
	case len(names) == 0 || names[0] == "":
		r.fail("%s names no host", from)
	}
	all := make([]hosts.Host, len(names))
	for i, name := range names {
		all[i] = hosts.Host{Name: name, Slots: 1, From: from}
	}
	return all
}

// fluxTask reads a task of flux run or flux submit. The job has some of the hosts of the instance.
func (r *reader) fluxTask() *Found {
	t := &Task{
		Step: r.get("FLUX_JOB_ID"), Rank: r.number("FLUX_TASK_RANK", 0), NumTasks: r.number("FLUX_JOB_SIZE", 1),
		LocalRank: r.number("FLUX_TASK_LOCAL_ID", 0), NumNodes: r.number("FLUX_JOB_NNODES", 1),
	}
	f := &Found{Job: "Flux job " + t.Step, JobID: t.Step, Why: r.from("FLUX_JOB_ID") + " and " +
		r.from("FLUX_TASK_RANK"), Task: t, From: "flux job info " + t.Step + " R"}
	if t.NumNodes == 1 || r.err != nil {
		f.From, t.LocalTasks = "", t.NumTasks
		return r.check(f)
	}
	r.fluxPlace(t)
	var set struct {
		Execution struct {
			Nodelist []string `json:"nodelist"`
		} `json:"execution"`
	}
	if err := json.Unmarshal([]byte(r.flux("job", "info", t.Step, "R")), &set); err != nil {
		r.fail("%s: %w", f.From, err)
	}
	f.Hosts = withoutSlots(r.expand(f.From, strings.Join(set.Execution.Nodelist, ",")))
	if len(f.Hosts) != t.NumNodes {
		return r.fail("%s, and %s names %d hosts", r.from("FLUX_JOB_NNODES"), f.From, len(f.Hosts))
	}
	t.Addr, t.NodeID = f.Hosts[0].Name, f.Hosts[min(t.Node, t.NumNodes-1)].Name
	return r.check(f)
}

// fluxPlace sets a task's node from the job's task map.
func (r *reader) fluxPlace(t *Task) {
	nodes, err := taskmap(r.flux("job", "taskmap", t.Step), t.NumTasks)
	if err != nil {
		r.fail("flux job taskmap %s: %w", t.Step, err)
		return
	}
	t.Node = nodes[t.Rank%t.NumTasks]
	for _, node := range nodes {
		if node == t.Node {
			t.LocalTasks++
		}
	}
}
