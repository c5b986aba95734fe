//go:build agents

package bootstrap

import _ "embed"

// `make gorun` writes these files: the agent for each architecture, and what they are.

//go:embed agents/agent-amd64.zst
var agentAMD64 string

//go:embed agents/agent-arm64.zst
var agentARM64 string

//go:embed agents/INDEX
var agentIndex string

func agentFiles() map[string]string {
	return map[string]string{"amd64": agentAMD64, "arm64": agentARM64}
}
