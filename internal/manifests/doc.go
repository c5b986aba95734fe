// Package manifests holds the check of what examples/ has for Kubernetes.
package manifests
