package dialect

import "fmt"

// mpiTable holds what gorun's own dialect has in common with mpirun and mpiexec.
// Options of the other launchers that are typed by habit stand in foreignTable.
func mpiTable(p *Line) []Option {
	return []Option{
		{
			Names: []string{"np", "n", "c"}, Group: GroupRanks, Value: "N", Attached: true, Family: FamilyCount, block: true,
			Help: "number of ranks; prog1 : -n 2 prog2 starts several programs in one job", Set: p.SetRanks,
		},
		{
			Names: []string{"host", "hosts", "H", "hostlist", "hosts-group"}, Group: GroupHosts,
			Value: "[USER@]HOST[[:PORT]:N],...", Family: familyHosts, block: true, Set: p.setHosts,
			Help: "hosts, and how many ranks each is meant to take; node[01-16]:8 is a range of them",
		},
		{
			Names: []string{"hostfile", "machinefile"}, Group: GroupHosts, Value: "FILE", Family: familyHosts, block: true,
			Help: "the same from a file, as Open MPI, MPICH or DeepSpeed reads it", Set: p.setHostFile,
		},
		{
			Names: []string{"x"}, Group: GroupProgram, Value: "NAME[=VALUE]", From: NoVar, block: true, Set: p.setExport,
			Help: "give ranks a variable, or the launcher's own value of it; PRE* means all that begin so",
		},
		{
			Names: []string{"use-hwthread-cpus"}, Group: GroupMPI, Family: familyThreads, Set: p.setThreads,
			Help: "hardware threads are counted where Open MPI counts cores: ranks where no number says, and pe=N of " +
				"--map-by",
		},
		ignored("", "gorun runs as root as it does as anybody else", "allow-run-as-root"),
	}
}

// SetRanks takes the number of ranks of the current program.
func (p *Line) SetRanks(a Arg) error {
	n, err := ParseRanks(a.Value)
	if err != nil {
		return err
	}
	if p.app.NumRanks != 0 && p.app.NumRanks != n {
		return fmt.Errorf("contradicts %s", p.ranksFrom)
	}
	p.app.NumRanks, p.ranksFrom = n, a.From
	return nil
}

// setHosts adds to the list: mpirun takes -H more than once.
func (p *Line) setHosts(a Arg) error {
	own := p.current()
	own.hostLists = append(own.hostLists, a)
	return nil
}
