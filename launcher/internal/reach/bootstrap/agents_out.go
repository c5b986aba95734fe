//go:build !agents

package bootstrap

// agentSums and agentFiles are empty in a build without agents, such as that of `go build`.
const agentSums = ""

func agentFiles() map[string]string { return nil }
