//go:build !agents

package bootstrap

// agentIndex and agentFiles are empty in a build without agents, such as that of `go build`.
const agentIndex = ""

func agentFiles() map[string]string { return nil }
