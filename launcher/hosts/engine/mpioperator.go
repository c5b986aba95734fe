package engine

import (
	"fmt"

	"gorun/launcher/hosts"
)

// operatorFile is where Kubeflow's MPI Operator mounts the list of a job's workers; one
// of hostFiles names it, by the kind of MPI that the job asks for. Elsewhere users set
// these variables themselves.
const operatorFile = "/etc/mpi/hostfile"

var hostFiles = []string{
	"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE",
	"I_MPI_HYDRA_HOST_FILE",
}

// findMPIOperator knows the launcher of an MPIJob: in Kubernetes, where its host file
// is. KUBERNETES_* alone is what every pod has, and workers have no host file variable.
func findMPIOperator(r World) (*Found, error) {
	var named string
	for _, name := range hostFiles {
		if r.get(name) == operatorFile {
			named = name
		}
	}
	if named == "" || r.get("K_MPI_JOB_ROLE") == "worker" || !r.set("KUBERNETES_SERVICE_HOST") {
		return nil, nil
	}
	text, err := r.read(named)
	if err != nil {
		return nil, err
	}
	file, err := hosts.ParseFile(operatorFile, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", named, err)
	}
	f := &Found{
		Job: "MPIJob", JobID: r.get("HOSTNAME"),
		Why:   r.from(named) + " and KUBERNETES_SERVICE_HOST",
		Hosts: file.Hosts, From: r.from(named), Notes: file.Notes,
	}
	if r.set("OMPI_MCA_plm_rsh_agent") {
		r.kubectl(f)
	}
	return f, nil
}

// kubectl goes into the workers' pods, as version 1 of the operator does. Its own
// script, /etc/mpi/kubexec.sh, passes no standard input on, which agents need. Version
// 2 reaches workers by SSH.
func (r World) kubectl(f *Found) {
	if path := r.command(f, "kubectl", "/opt/kube/kubectl"); path != "" {
		f.start = func([]hosts.Host) Start { return Start{PerHost: []string{path, "exec", "-i", "{host}", "--"}} }
	}
}
