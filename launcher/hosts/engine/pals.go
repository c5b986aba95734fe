package engine

import (
	"fmt"
)

// findPALS knows the tasks of PALS, HPE Cray's application launcher behind its mpiexec
// and aprun. It runs in an allocation of PBS, or of Slurm, which comes after it.
//
// PALS_RANKID, PALS_LOCAL_RANKID, PALS_LOCAL_SIZE and PALS_NODEID are what users'
// scripts on such machines go by; that the number of tasks is PMI_SIZE (Cray PMI, set
// by PALS too) is what those scripts do, no reference of HPE's could be read.
func findPALS(r World) (*Found, error) {
	if !r.set("PALS_RANKID") {
		return nil, nil
	}
	local := r.given("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE")
	if local == "" {
		return nil, fmt.Errorf("%s, and neither PALS_LOCAL_SIZE nor PMI_LOCAL_SIZE says how many tasks this node has",
			r.from("PALS_RANKID"))
	}
	t := &Task{NodeID: r.get("PALS_NODEID"), Step: r.get("PALS_APID")}
	err := r.numbers(
		numberWish{&t.Rank, "PALS_RANKID", 0}, numberWish{&t.NumTasks, "PMI_SIZE", 1},
		numberWish{&t.LocalRank, "PALS_LOCAL_RANKID", 0}, numberWish{&t.LocalTasks, local, 1},
		numberWish{&t.Node, "PALS_NODEID", 0},
	)
	if err != nil {
		return nil, err
	}
	f := &Found{
		Job: "PALS application " + t.Step, JobID: t.Step,
		Why: r.from("PALS_RANKID") + " and " + r.from("PMI_SIZE"), Task: t,
	}
	if t.NumNodes, err = r.palsNodes(t); err != nil {
		return nil, err
	}
	r.palsHosts(f)
	return f, f.check()
}

// palsNodes is the number of nodes, which nothing says: all have as many tasks as this
// one, or there is just one.
func (r World) palsNodes(t *Task) (int, error) {
	if t.NumTasks%t.LocalTasks != 0 {
		return 0, fmt.Errorf("PMI_SIZE=%d, and %d of them on this node: how many nodes there are cannot be told where they "+
			"have different numbers of tasks", t.NumTasks, t.LocalTasks)
	}
	return t.NumTasks / t.LocalTasks, nil
}

// palsHosts takes the hosts from PBS, whose node file is on the first host for sure and
// on others perhaps. They are those of the job: PALS takes them in this order.
func (r World) palsHosts(f *Found) {
	if !r.set("PBS_NODEFILE") {
		return
	}
	all, _, err := r.oneALine("PBS_NODEFILE")
	if err != nil || len(all) < f.Task.NumNodes {
		return
	}
	f.Hosts, f.From = open(all)[:f.Task.NumNodes:f.Task.NumNodes], r.from("PBS_NODEFILE")
	f.Task.Addr, f.Task.NodeID = f.Hosts[0].Name, f.Hosts[min(f.Task.Node, len(f.Hosts)-1)].Name
}
