package engine

// findPALS knows the tasks of PALS, HPE Cray's application launcher behind its mpiexec
// and aprun. It runs in an allocation of PBS, or of Slurm, which comes after it.
//
// PALS_RANKID, PALS_LOCAL_RANKID, PALS_LOCAL_SIZE and PALS_NODEID are what users'
// scripts on such machines go by; that the number of tasks is PMI_SIZE (Cray PMI, set
// by PALS too) is what those scripts do, no reference of HPE's could be read.
func findPALS(r *reader) *Found {
	if !r.set("PALS_RANKID") {
		return nil
	}
	local, said := r.first("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE")
	if said == "" {
		return r.fail("%s, and neither PALS_LOCAL_SIZE nor PMI_LOCAL_SIZE says how many tasks this node has",
			r.from("PALS_RANKID"))
	}
	t := &Task{
		Rank: r.number("PALS_RANKID", 0), NumTasks: r.number("PMI_SIZE", 1),
		LocalRank: r.number("PALS_LOCAL_RANKID", 0), LocalTasks: r.number(local, 1),
		Node: r.number("PALS_NODEID", 0), NodeID: r.get("PALS_NODEID"), Step: r.get("PALS_APID"),
	}
	// Nothing says how many nodes there are: all have as many tasks as this one, or there is just one.
	t.NumNodes = t.NumTasks / t.LocalTasks
	if t.NumTasks%t.LocalTasks != 0 {
		return r.fail("PMI_SIZE=%d, and %d of them on this node: how many nodes there are cannot be told where they "+
			"have different numbers of tasks", t.NumTasks, t.LocalTasks)
	}
	f := &Found{
		Job: "PALS application " + t.Step, JobID: t.Step,
		Why: r.from("PALS_RANKID") + " and " + r.from("PMI_SIZE"), Task: t,
	}
	r.palsHosts(f)
	return r.check(f)
}

// palsHosts takes the hosts from PBS, whose node file is on the first host for sure and
// on others perhaps. They are those of the job: PALS takes them in this order.
func (r *reader) palsHosts(f *Found) {
	perhaps := &reader{World: r.World}
	all, _ := perhaps.oneALine("PBS_NODEFILE")
	if !r.set("PBS_NODEFILE") || perhaps.err != nil || len(all) < f.Task.NumNodes {
		return
	}
	f.Hosts, f.From = open(all)[:f.Task.NumNodes:f.Task.NumNodes], r.from("PBS_NODEFILE")
	f.Task.Addr, f.Task.NodeID = f.Hosts[0].Name, f.Hosts[min(f.Task.Node, len(f.Hosts)-1)].Name
}
