package dialect

// placeTable holds gorun's options on placement, in the spellings of mpirun, Hydra and torchrun.
func placeTable(p *Line) []Option {
	return append(p.PlaceOptions(varGorun), inGroup(GroupPlaces, []Option{
		{
			Names: "bind-mem", Value: "POLICY", Choices: "preferred|bind|interleave|none",
			Family: familyMemory, Set: Index(&p.Spec.Place.Memory),
			Help: "set the memory policy: preferred, bind, interleave, none (preferred)",
		},
		{
			Names: "isolate-gpus", Family: familyIsolate, Set: Switch(&p.Spec.Place.Isolate),
			Help: "show each rank only its own GPUs, as devices from 0",
		},
		{
			Names: "report-bindings", From: NoVar, Set: p.setReportBindings,
			Help: "print where each rank runs (mpirun: in Open MPI's format)",
		},
	})...)
}

// PlaceOptions returns the options on placement that gorun topo shares, with varGorun or NoVar as their source.
func (p *Line) PlaceOptions(from Source) []Option {
	rows := inGroup(GroupPlaces, []Option{
		{
			Names: "map-by", Value: "OBJECT", block: true, Family: familyMap, Set: p.setMapBy,
			Choices: "slot|numa|package|core|gpu|nic",
			Help:    "map ranks by slot, numa, package, core, gpu, nic or ppr:N:OBJECT",
		},
		{
			Names: "bind-to", Value: "OBJECT", block: true, Family: familyBind, Set: p.setBindTo,
			Choices: "none|hwthread|core|l2cache|l3cache|numa|package",
			Help:    "bind ranks to none, hwthread, core, l2cache, l3cache, numa, package",
		},
		{
			Names: "rank-by", Value: "OBJECT", block: true, Family: familyRank, Set: p.setRankBy,
			Choices: "fill|span",
			Help:    "number ranks by fill, span or an object of --map-by",
		},
		{
			Names: "numa-binding", Value: "MODE", Choices: "node|socket|exclusive|core-complex",
			From: varBoth, block: true, Family: familyNUMA, Set: p.setNUMABinding,
			Help: "bind ranks near their GPU: node, socket, exclusive, core-complex",
		},
		{
			Names: "cpus-per-rank", Value: "N", block: true, Family: familyCPUs, Set: p.setCPUsPerRank,
			Help: "give each rank N CPUs, in whole cores",
		},
		{
			Names: "gpus-per-rank", Value: "N", block: true, Family: familyGPUs, Set: p.setGPUsPerRank,
			Help: "give each rank N GPUs",
		},
		{
			Names: "gpus", Value: "LIST|free", Set: p.setGPUs,
			Help: "use GPUs by index, such as 2,4,7, or those that no process uses",
		},
		{
			Names: "rankfile rf", Value: "FILE", Family: familyRankFile, Set: p.setRankFile,
			Help: "read the place of each rank from a rank file of mpirun",
		},
	})
	for i := range rows {
		rows[i].From = max(rows[i].From, from)
	}
	return rows
}
