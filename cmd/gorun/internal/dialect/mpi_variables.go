package dialect

import (
	"errors"
	"fmt"
	"strings"

	"gorun/launcher/job"
)

// hydraVariables are the variables by which MPICH's and Intel's mpiexec take what their
// options say. Of several for one question the first that is set counts.
func hydraVariables() (all []fallback) {
	for _, v := range []struct{ option, names string }{
		{"launcher", "HYDRA_LAUNCHER HYDRA_BOOTSTRAP I_MPI_HYDRA_BOOTSTRAP"},
		{"launcher-exec", "HYDRA_LAUNCHER_EXEC HYDRA_BOOTSTRAP_EXEC I_MPI_HYDRA_BOOTSTRAP_EXEC"},
		{"rmk", "HYDRA_RMK I_MPI_HYDRA_RMK"},
		{"iface", "HYDRA_IFACE I_MPI_HYDRA_IFACE"},
		{"binding", "HYDRA_BINDING"},
		{"map-by", "HYDRA_MAPPING"},
		{"membind", "HYDRA_MEMBIND"},
		{"host", "I_MPI_HYDRA_HOSTS_GROUP"},
		{"disable-auto-cleanup", "I_MPI_FAULT_CONTINUE"},
		{"debug", "HYDRA_DEBUG I_MPI_HYDRA_DEBUG"},
	} {
		for _, name := range strings.Fields(v.names) {
			all = append(all, fallback{option: v.option, variable: name})
		}
	}
	for i := range hydraVariableTable {
		for _, name := range hydraVariableTable[i].Names {
			all = append(all, fallback{row: &hydraVariableTable[i], variable: name})
		}
	}
	return all
}

// hydraVariableTable are those for which there is no option, or none that says the same.
var hydraVariableTable = []Option{
	{
		Names: []string{"HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"}, Value: "'ARGS'",
		family: familySSHArgs,
		Help:   "arguments of the program that reaches other hosts", set: (*parser).setSSHArgs,
	},
	{
		Names: []string{"HYDRA_ENV"}, Value: "all|none|list:NAME,...", family: familyExport,
		Help: "what ranks have of this environment", set: (*parser).setHydraEnv,
	},
	{
		Names: []string{"I_MPI_PERHOST"}, Value: "N|all|allcores", family: familyPerHost,
		Help: "ranks per node, and a limit beside -n", set: (*parser).setPerHost,
	},
	{
		Names: []string{"HYDRA_TOPO_DEBUG"}, Value: "BOOL",
		Help: "--report-bindings", set: switched((*parser).setReportBindings),
	},
	{
		Names: []string{"HYDRA_CONFIG_FILE"}, Value: "FILE", Group: GroupAccepted, set: nothing,
		Help: "gorun reads no such file; what it sets can be set as variables",
	},
	{
		Names: []string{
			"HYDRA_LAUNCHER_AUTOFORK", "HYDRA_LAUNCHER_SSH_ENABLE_WARNINGS", "HYDRA_LAUNCHER_SSH_LIMIT",
			"HYDRA_LAUNCHER_SSH_LIMIT_TIME", "HYDRA_PROXY_RETRY_COUNT",
			"I_MPI_HYDRA_BOOTSTRAP_AUTOFORK", "I_MPI_HYDRA_BRANCH_COUNT", "I_MPI_HYDRA_PROXY_WAIT",
			"I_MPI_HYDRA_UNIQUE_PROXIES", "I_MPI_HYDRA_TREE_LEVEL", "I_MPI_PORT_RANGE", "MPIEXEC_PORTRANGE",
			"MPIEXEC_PORT_RANGE",
		}, Value: "WHAT", Group: GroupAccepted, set: nothing,
		Help: "it is for Hydra's proxies, and there are none",
	},
	{
		Names: []string{"HYDRA_TOPOLIB", "I_MPI_HYDRA_TOPOLIB", "HYDRA_HOSTNAME_PROPAGATION", "HYDRA_USE_LOCALHOST"},
		Value: "WHAT", Group: GroupAccepted, set: nothing,
		Help: "each host is asked for what it is like",
	},
}

// setHydraEnv takes HYDRA_ENV.
func (p *parser) setHydraEnv(a arg) error {
	list, listed := strings.CutPrefix(a.value, "list:")
	switch {
	case listed:
		return p.setEnvList(arg{value: list, from: a.from})
	case a.value == "none":
		a.on = true
		return p.setEnvNone(a)
	case a.value == "all":
		p.inv.Spec.ExportAll = true
		return nil
	}
	return errors.New("not all, none, nor list: with names of variables")
}

// setPerHost takes Intel's I_MPI_PERHOST, which counts beside -n.
func (p *parser) setPerHost(a arg) error {
	kind, known := map[string]job.CountKind{"all": job.CountCPU, "allcores": job.CountCore}[a.value]
	spec := &p.inv.Spec
	switch {
	case spec.PerNode.Kind != job.CountUnset:
		return nil
	case known:
		p.mpi.perNode = a
		spec.PerNode = job.Count{Kind: kind, From: a.from}
		return nil
	}
	n, err := parseRanks(a.value)
	if err != nil {
		return fmt.Errorf("%w, nor all, allcores", err)
	}
	return p.ranksPerNode(a, n)
}
