package engine

import (
	"slices"

	"gorun/launcher/hosts"
)

// operatorFile is where Kubeflow's MPI Operator mounts the list of workers. It sets one of hostFiles, depending on the
// MPI; elsewhere users set these variables themselves.
const operatorFile = "/etc/mpi/hostfile"

var hostFiles = []string{
	"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE",
	"I_MPI_HYDRA_HOST_FILE",
}

// findMPIOperator finds the launcher pod of an MPIJob.
func findMPIOperator(r *reader) *Found {
	i := slices.IndexFunc(hostFiles, func(name string) bool { return r.get(name) == operatorFile })
	if i < 0 || r.get("K_MPI_JOB_ROLE") == "worker" || !r.set("KUBERNETES_SERVICE_HOST") {
		return nil
	}
	named := hostFiles[i]
	text := r.read(named)
	file, err := hosts.ParseFile(operatorFile, text)
	if err != nil {
		return r.fail("%s: %w", named, err)
	}
	f := &Found{
		Job: "MPIJob", JobID: r.get("HOSTNAME"),
		Why:   r.from(named) + " and KUBERNETES_SERVICE_HOST",
		Hosts: file.Hosts, From: r.from(named), Notes: file.Notes,
	}
	// Version 1 of the operator uses kubectl exec; its script /etc/mpi/kubexec.sh forwards no standard input, which
	// agents need. Version 2 uses SSH.
	if r.set("OMPI_MCA_plm_rsh_agent") {
		r.perHost(f, []string{"kubectl", "/opt/kube/kubectl"}, "exec", "-i", "{host}", "--")
	}
	return f
}
