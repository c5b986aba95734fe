// Package manifests checks the Kubernetes and Slurm files of examples/.
package manifests
