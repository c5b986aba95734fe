package dialect

// hydraVariables holds variables of mpiexec from MPICH and Intel without an equal option.
func (p *Line) hydraVariables() []Option {
	return []Option{
		{
			Names:  "HYDRA_LAUNCHER_EXTRA_ARGS I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
			Value:  "'ARGS'",
			Family: familySSHArgs, Help: "arguments of the program that reaches other hosts", Set: p.setSSHArgs,
		},
		{
			Names: "HYDRA_ENV", Value: "all|none|list:NAME,...", Family: familyExport,
			Help: "what ranks have of this environment", Set: p.setHydraEnv,
		},
		{
			Names: "I_MPI_PERHOST", Value: "N|all|allcores", Family: familyPerHost,
			Help: "ranks per node, and a limit beside -n", Set: p.setPerHost,
		},
		p.parameter("--report-bindings", "BOOL", "HYDRA_TOPO_DEBUG"),
		ignored("FILE", "gorun reads no such file; what it sets can be set as variables", "HYDRA_CONFIG_FILE"),
		ignored("WHAT", "gorun has no Hydra proxies",
			"HYDRA_LAUNCHER_AUTOFORK HYDRA_LAUNCHER_SSH_ENABLE_WARNINGS HYDRA_LAUNCHER_SSH_LIMIT "+
				"HYDRA_LAUNCHER_SSH_LIMIT_TIME HYDRA_PROXY_RETRY_COUNT I_MPI_HYDRA_BOOTSTRAP_AUTOFORK "+
				"I_MPI_HYDRA_BRANCH_COUNT I_MPI_HYDRA_PROXY_WAIT I_MPI_HYDRA_UNIQUE_PROXIES "+
				"I_MPI_HYDRA_TREE_LEVEL I_MPI_PORT_RANGE MPIEXEC_PORTRANGE MPIEXEC_PORT_RANGE"),
		ignored("WHAT", "gorun asks each host itself",
			"HYDRA_TOPOLIB I_MPI_HYDRA_TOPOLIB HYDRA_HOSTNAME_PROPAGATION HYDRA_USE_LOCALHOST"),
	}
}
