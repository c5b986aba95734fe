// Package manifests holds the check of what examples/ has for Kubernetes and for Slurm.
package manifests
