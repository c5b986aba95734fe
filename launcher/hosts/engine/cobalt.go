package engine

// findCobalt knows Argonne's Cobalt on clusters. Its node file names each host once,
// which counts no ranks; it has no command that starts tasks there.
func findCobalt(w World) (*Found, error) {
	r := reader{w}
	if !r.set("COBALT_JOBID", "COBALT_NODEFILE") {
		return nil, nil
	}
	all, _, err := r.oneALine("COBALT_NODEFILE")
	if err != nil {
		return nil, err
	}
	if once(all) {
		all = open(all)
	}
	return &Found{
		Job: "Cobalt job " + r.get("COBALT_JOBID"), JobID: r.get("COBALT_JOBID"),
		Why:   r.from("COBALT_JOBID") + " and COBALT_NODEFILE",
		Hosts: all, From: r.from("COBALT_NODEFILE"),
	}, nil
}
