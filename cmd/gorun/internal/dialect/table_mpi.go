package dialect

import (
	"fmt"
	"strings"
)

// mpiTable holds what gorun's own dialect shares with mpirun and mpiexec.
func mpiTable(p *Line) []Option {
	return []Option{
		{
			Names: "np n c", Group: GroupRanks, Value: "N", Attached: true, Family: FamilyCount, block: true,
			Help: "start N ranks; prog1 : -n 2 prog2 adds another program", Set: p.SetRanks,
		},
		{
			Names: "host hosts H hostlist hosts-group", Group: GroupHosts,
			Value: "[USER@]HOST[[:PORT]:N],...", Family: familyHosts, block: true, Set: p.setHosts,
			Help: "run on these hosts with N slots each; node[01-16]:8 is a range",
		},
		{
			Names: "hostfile machinefile", Group: GroupHosts, Value: "FILE", Family: familyHosts, block: true,
			Help: "read hosts from FILE in the format of Open MPI, MPICH or DeepSpeed", Set: p.setHostFile,
		},
		{
			Names: "x", Group: GroupProgram, Value: "NAME[=VALUE]", From: NoVar, block: true, Set: p.setExport,
			Help: "export NAME to ranks (with its value here); PRE* exports several",
		},
		{
			Names: "use-hwthread-cpus", Group: GroupMPI, Family: familyThreads, Set: p.setThreads,
			Help: "count hardware threads where Open MPI counts cores",
		},
		ignored("", "gorun runs as root without it", "allow-run-as-root"),
	}
}

// SetRanks sets the number of ranks of the current program.
func (p *Line) SetRanks(a Arg) error {
	n, err := ParseRanks(a.Value)
	if err != nil {
		return err
	}
	if p.app.NumRanks != 0 && p.app.NumRanks != n {
		text := ""
		if strings.HasPrefix(a.From, "-c") != strings.HasPrefix(p.ranksFrom, "-c") {
			text = ": -c means -n, as in mpirun; srun's -c is --cpus-per-rank"
		}
		return fmt.Errorf("contradicts %s%s", p.ranksFrom, text)
	}
	p.app.NumRanks, p.ranksFrom = n, a.From
	return nil
}

// setHosts adds a list: -H may be repeated, as in mpirun.
func (p *Line) setHosts(a Arg) error {
	own := p.current()
	own.hostLists = append(own.hostLists, a)
	return nil
}
