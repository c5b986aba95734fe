package dialect

import (
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
)

// hydraVariables are variables of MPICH's and Intel's mpiexec for which there is no option, or none that says the same.
func (p *Line) hydraVariables() []Option {
	return []Option{
		{
			Names:  []string{"HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"},
			Value:  "'ARGS'",
			Family: familySSHArgs, Help: "arguments of the program that reaches other hosts", Set: p.setSSHArgs,
		},
		{
			Names: []string{"HYDRA_ENV"}, Value: "all|none|list:NAME,...", Family: familyExport,
			Help: "what ranks have of this environment", Set: p.setHydraEnv,
		},
		{
			Names: []string{"I_MPI_PERHOST"}, Value: "N|all|allcores", Family: familyPerHost,
			Help: "ranks per node, and a limit beside -n", Set: p.setPerHost,
		},
		p.parameter("--report-bindings", "BOOL", "HYDRA_TOPO_DEBUG"),
		ignored("FILE", "gorun reads no such file; what it sets can be set as variables", "HYDRA_CONFIG_FILE"),
		ignored("WHAT", "it is for Hydra's proxies, and there are none",
			"HYDRA_LAUNCHER_AUTOFORK", "HYDRA_LAUNCHER_SSH_ENABLE_WARNINGS", "HYDRA_LAUNCHER_SSH_LIMIT",
			"HYDRA_LAUNCHER_SSH_LIMIT_TIME", "HYDRA_PROXY_RETRY_COUNT",
			"I_MPI_HYDRA_BOOTSTRAP_AUTOFORK", "I_MPI_HYDRA_BRANCH_COUNT", "I_MPI_HYDRA_PROXY_WAIT",
			"I_MPI_HYDRA_UNIQUE_PROXIES", "I_MPI_HYDRA_TREE_LEVEL", "I_MPI_PORT_RANGE", "MPIEXEC_PORTRANGE",
			"MPIEXEC_PORT_RANGE"),
		ignored("WHAT", "each host is asked for what it is like", "HYDRA_TOPOLIB", "I_MPI_HYDRA_TOPOLIB",
			"HYDRA_HOSTNAME_PROPAGATION", "HYDRA_USE_LOCALHOST"),
	}
}

// setHydraEnv takes HYDRA_ENV.
func (p *Line) setHydraEnv(a Arg) error {
	list, listed := strings.CutPrefix(a.Value, "list:")
	switch {
	case listed:
		return p.setEnvList(Arg{Value: list, From: a.From})
	case a.Value == "none":
		a.On = true
		return p.setEnvNone(a)
	case a.Value == "all":
		p.Spec.ExportAll = true
		return nil
	}
	return errors.New("not all, none, nor list: with names of variables")
}

// setPerHost takes Intel's I_MPI_PERHOST, which counts beside -n.
func (p *Line) setPerHost(a Arg) error {
	kind, known := map[string]job.CountKind{"all": job.CountCPU, "allcores": job.CountCore}[a.Value]
	spec := &p.Spec
	switch {
	case spec.PerNode.Kind != job.CountUnset:
		return nil
	case known:
		p.mpi.perNode = a
		spec.PerNode = job.Count{Kind: kind, From: a.From}
		return nil
	}
	n, err := ParseRanks(a.Value)
	if err != nil {
		return fmt.Errorf("%w, nor all, allcores", err)
	}
	return p.ranksPerNode(a, n)
}
