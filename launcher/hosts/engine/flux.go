package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// findFlux knows a Flux instance, as flux alloc, flux batch and flux start make one, and
// the tasks of a Flux job.
//
// The initial program of an instance has FLUX_URI, and no variable says more: FLUX_JOB_ID
// and the like, and SLURM_*, are removed from it (flux-environment(7)), so what of these
// is there belongs to a task of a job, or was started by Slurm within. Hosts come from
// the command flux.
func findFlux(r World) (*Found, error) {
	switch {
	case !r.set("FLUX_URI"):
		return nil, nil
	case r.set("FLUX_JOB_ID", "FLUX_TASK_RANK"):
		return r.fluxTask()
	}
	if _, err := r.LookPath("flux"); err != nil {
		return nil, fmt.Errorf("%s, and the command flux, which knows the hosts, is not in PATH", r.from("FLUX_URI"))
	}
	all, err := r.fluxHosts("getattr", "hostlist")
	if err != nil {
		return nil, err
	}
	f := &Found{
		Job: "Flux instance " + r.get("FLUX_URI"), JobID: r.get("FLUX_URI"), Why: r.from("FLUX_URI"),
		From: "flux getattr hostlist",
	}
	if id, err := r.flux("getattr", "jobid"); err == nil && id != "" { // the outermost instance has none
		f.Job, f.JobID = "Flux job "+id, id
	}
	ranks := make(map[string]int, len(all)) // the first broker of each host
	for rank, h := range all {
		if _, known := ranks[h.Name]; !known {
			ranks[h.Name] = rank
		}
	}
	// Flux counts cores, not ranks: an instance has no number of tasks.
	f.Hosts = open(hosts.Merge(all))
	if path := r.command(f, "flux"); path != "" {
		f.start = func(wanted []hosts.Host) Start {
			return Start{Once: fluxExec(path, len(all), wanted, ranks)}
		}
	}
	return f, nil
}

// fluxExec starts a command by each broker, which is one per host, and sends standard
// input to all of them (flux-exec(1)). flux run would do so, too (flux-job(1), ATTACH),
// but as a job of the instance: it waits until cores are free, binds its tasks to
// them, and hides GPUs that it did not ask for.
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

// flux runs a command of Flux's that reads.
func (r World) flux(words ...string) (string, error) {
	line := "flux " + strings.Join(words, " ")
	if r.Output == nil {
		return "", fmt.Errorf("%s: no command can be run here", line)
	}
	out, err := r.Output(append([]string{"flux"}, words...)...)
	if err != nil {
		return "", fmt.Errorf("%s, and %s: %w", r.from("FLUX_URI"), line, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// fluxHosts reads a host list as a command of Flux's prints it: RFC 29 is Slurm's
// grammar.
func (r World) fluxHosts(words ...string) ([]hosts.Host, error) {
	list, err := r.flux(words...)
	if err != nil {
		return nil, err
	}
	return r.expand("flux "+strings.Join(words, " "), list)
}

func (r World) expand(from, list string) ([]hosts.Host, error) {
	names, err := hosts.Expand(list)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", from, err)
	case len(names) == 0 || names[0] == "":
		return nil, fmt.Errorf("%s names no host", from)
	}
	all := make([]hosts.Host, len(names))
	for i, name := range names {
		all[i] = hosts.Host{Name: name, Slots: 1, From: from}
	}
	return all, nil
}

// fluxTask is a process of flux run, flux submit and the like.
func (r World) fluxTask() (*Found, error) {
	t := &Task{Step: r.get("FLUX_JOB_ID")}
	f := &Found{Job: "Flux job " + t.Step, JobID: t.Step, Why: r.from("FLUX_JOB_ID") + " and " +
		r.from("FLUX_TASK_RANK"), Task: t}
	err := r.numbers(
		numberWish{&t.Rank, "FLUX_TASK_RANK", 0}, numberWish{&t.NumTasks, "FLUX_JOB_SIZE", 1},
		numberWish{&t.LocalRank, "FLUX_TASK_LOCAL_ID", 0}, numberWish{&t.NumNodes, "FLUX_JOB_NNODES", 1},
	)
	if err != nil {
		return nil, err
	}
	if t.NumNodes == 1 {
		t.LocalTasks = t.NumTasks
		return f, f.check()
	}
	if err := r.fluxPlace(t); err != nil {
		return nil, err
	}
	if f.Hosts, f.From, err = r.fluxNodes(t.Step); err != nil {
		return nil, err
	}
	if len(f.Hosts) != t.NumNodes {
		return nil, fmt.Errorf("%s, and %s names %d hosts", r.from("FLUX_JOB_NNODES"), f.From, len(f.Hosts))
	}
	t.Addr, t.NodeID = f.Hosts[0].Name, f.Hosts[min(t.Node, t.NumNodes-1)].Name
	return f, f.check()
}

// fluxNodes are the hosts of a job: those of the instance that FLUX_URI names are more.
func (r World) fluxNodes(id string) (all []hosts.Host, from string, err error) {
	from = "flux job info " + id + " R"
	text, err := r.flux("job", "info", id, "R")
	if err != nil {
		return nil, from, err
	}
	var set struct {
		Execution struct {
			Nodelist []string `json:"nodelist"`
		} `json:"execution"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return nil, from, fmt.Errorf("%s: %w", from, err)
	}
	all, err = r.expand(from, strings.Join(set.Execution.Nodelist, ","))
	return open(all), from, err
}

// fluxPlace finds the node of a task in the job's task map.
func (r World) fluxPlace(t *Task) error {
	from := "flux job taskmap " + t.Step
	text, err := r.flux("job", "taskmap", t.Step)
	if err != nil {
		return err
	}
	nodes, err := taskmap(text, t.NumTasks)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	t.Node = nodes[t.Rank%t.NumTasks]
	for _, node := range nodes {
		if node == t.Node {
			t.LocalTasks++
		}
	}
	return nil
}
