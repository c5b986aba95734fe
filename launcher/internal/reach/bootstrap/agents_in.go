//go:build agents

package bootstrap

import _ "embed"

// `make gorun` writes these files: the agent for each architecture, and the SHA-256 of its content.

//go:embed agents/agent-amd64.gz
var agentAMD64 string

//go:embed agents/agent-arm64.gz
var agentARM64 string

//go:embed agents/SHA256SUMS
var agentSums string

func agentFiles() map[string]string {
	return map[string]string{"amd64": agentAMD64, "arm64": agentARM64}
}
