package engine

// findPALS finds a task of PALS, the launcher behind HPE Cray's mpiexec and aprun, in an allocation of PBS or Slurm.
// Its variables, and PMI_SIZE for the number of tasks, are those that users' scripts read; HPE's reference was not
// available.
func findPALS(r *reader) *Found {
	if !r.set("PALS_RANKID") {
		return nil
	}
	local, value := r.first("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE")
	if value == "" {
		return r.fail("%s, and neither PALS_LOCAL_SIZE nor PMI_LOCAL_SIZE says how many tasks this node has",
			r.from("PALS_RANKID"))
	}
	t := &Task{
		Rank: r.number("PALS_RANKID", 0), NumTasks: r.number("PMI_SIZE", 1),
		LocalRank: r.number("PALS_LOCAL_RANKID", 0), LocalTasks: r.number(local, 1),
		Node: r.number("PALS_NODEID", 0), NodeID: r.get("PALS_NODEID"), Step: r.get("PALS_APID"),
	}
	// No variable has the number of nodes: assume that all have as many tasks as this one.
	t.NumNodes = t.NumTasks / t.LocalTasks
	if t.NumTasks%t.LocalTasks != 0 {
		return r.fail("PMI_SIZE=%d, and %d of them on this node: how many nodes there are is unknown if they "+
			"have different numbers of tasks", t.NumTasks, t.LocalTasks)
	}
	f := &Found{
		Job: "PALS application " + t.Step, JobID: t.Step,
		Why: r.from("PALS_RANKID") + " and " + r.from("PMI_SIZE"), Task: t,
	}
	r.palsHosts(f)
	return r.check(f)
}

// palsHosts sets the hosts from PBS's node file, in whose order PALS uses them. Only the first host is sure to have it.
func (r *reader) palsHosts(f *Found) {
	try := &reader{World: r.World}
	all, _ := try.hostPerLine("PBS_NODEFILE")
	if !r.set("PBS_NODEFILE") || try.err != nil || len(all) < f.Task.NumNodes {
		return
	}
	f.Hosts, f.From = withoutSlots(all)[:f.Task.NumNodes:f.Task.NumNodes], r.from("PBS_NODEFILE")
	f.Task.Addr, f.Task.NodeID = f.Hosts[0].Name, f.Hosts[min(f.Task.Node, len(f.Hosts)-1)].Name
}
