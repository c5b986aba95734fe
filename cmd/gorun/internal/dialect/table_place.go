package dialect

// placeTable holds the options of gorun that say where on its host a rank runs, as
// mpirun, Hydra and torchrun spell them; gorun topo shows what they come to.
func placeTable(p *Line) []Option {
	return append(p.PlaceOptions(varGorun), []Option{
		{
			Names: []string{"bind-mem"}, Group: GroupPlaces, Value: "POLICY",
			Choices: []string{"preferred", "bind", "interleave", "none"}, Family: familyMemory,
			Help: "memory of bound ranks, of the NUMA nodes of their CPUs: preferred, bind (alone: a rank for which they are " +
				"too small is killed), interleave (of all nodes for ranks that are not bound), none (default: preferred)",
			Set: named(&p.Spec.Place.Memory, "preferred", "bind", "interleave", "none"),
		},
		{
			Names: []string{"isolate-gpus"}, Group: GroupPlaces, Family: familyIsolate, Set: Switch(&p.Spec.Place.Isolate),
			Help: "each rank sees its own GPUs alone, by UUID where it is known: they are its devices 0 and up, whatever " +
				"LOCAL_RANK is",
		},
		{
			Names: []string{"report-bindings"}, Group: GroupPlaces, From: NoVar, Set: p.setReportBindings,
			Help: "say on standard error where each rank is; called mpirun in Open MPI's words",
		},
	}...)
}

// PlaceOptions are those that gorun topo has, too, but without variables.
func (p *Line) PlaceOptions(from Source) []Option {
	torchruns := from
	if from == varGorun {
		torchruns = varBoth
	}
	return []Option{
		{
			Names: []string{"map-by"}, Group: GroupPlaces, Value: "OBJECT", From: from, block: true, Family: familyMap,
			Help: "what ranks are dealt to: slot, numa, package, l3cache, l2cache, core, hwthread, gpu, nic, dist, " +
				"ppr:N:OBJECT; with :pe=N, :span, :oversubscribe behind it",
			Set: p.setMapBy,
		},
		{
			Names: []string{"bind-to"}, Group: GroupPlaces, Value: "OBJECT", From: from, block: true, Family: familyBind,
			Help: "the CPUs of which object each rank gets: none, hwthread, core, l2cache, l3cache, numa, package",
			Set:  p.setBindTo,
		},
		{
			Names: []string{"rank-by"}, Group: GroupPlaces, Value: "OBJECT", From: from, block: true, Family: familyRank,
			Help: "in which order ranks are numbered: as in --map-by, or fill, span", Set: p.setRankBy,
		},
		{
			Names: []string{"numa-binding"}, Group: GroupPlaces, Value: "MODE",
			Choices: []string{"node", "socket", "exclusive", "core-complex"}, From: torchruns, block: true,
			Family: familyNUMA,
			Help:   "torchrun's binding: node, socket, exclusive or core-complex of each rank's GPU",
			Set:    p.setNUMABinding,
		},
		{
			Names: []string{"cpus-per-rank"}, Group: GroupPlaces, Value: "N", From: from, block: true, Family: familyCPUs,
			Help: "CPUs of each rank, in whole cores",
			Set:  p.setCPUsPerRank,
		},
		{
			Names: []string{"gpus-per-rank"}, Group: GroupPlaces, Value: "N", From: from, block: true, Family: familyGPUs,
			Help: "GPUs of each rank", Set: p.setGPUsPerRank,
		},
		{
			Names: []string{"gpus"}, Group: GroupPlaces, Value: "LIST|free", From: from,
			Help: "which GPUs ranks get: by index, such as 2,4,7, or those that no process uses",
			Set:  p.setGPUs,
		},
		{
			Names: []string{"rankfile", "rf"}, Group: GroupPlaces, Value: "FILE", From: from, Family: familyRankFile,
			Help: "a place for each rank, as a rank file of mpirun says it", Set: p.setRankFile,
		},
	}
}
