package plan

import (
	"slices"
	"strings"

	"gorun/env"
)

// ofItsNode are variables whose values only the node of a rank knows: files and directories there, and where its
// servers are.
var nodeLocal = []string{env.VarTorchelasticErrorFile, env.VarJobKey, "PWD", "PMI_FD", "PMI_PORT", "PMIX_SERVER_URI3"}

// harmless say of some variables which values name nothing but what they should; others may not contain a slash.
var safeValue = map[string]func(value string) bool{
	env.VarTorchelasticRunID: anyText, // texts that nobody opens
	env.VarRoleName:          anyText,
	env.VarJobWorld:          anyText,
	openMPIDaemon:            func(value string) bool { return value == nowhere },
	// The node itself asks there what NCCL does.
	"NCCL_RAS_ADDR": func(value string) bool {
		port, here := strings.CutPrefix(value, "localhost:")
		return here && strings.Trim(port, "0123456789") == ""
	},
	// MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0
	env.VarCUDAVisibleDevices: func(value string) bool {
		return !slices.ContainsFunc(strings.Split(value, ","), func(entry string) bool {
			return strings.Contains(entry, "/") && !strings.HasPrefix(strings.TrimSpace(entry), "MIG-")
		})
	},
}

func anyText(string) bool { return true }

// Accepts reports whether a launcher may give a variable this value in ranks of a node that somebody else has started:
// it is one that [Build] sets, and names nothing on the node.
func Accepts(name, value string) bool {
	if !Sets(name) || slices.Contains(nodeLocal, name) {
		return false
	}
	if is := safeValue[name]; is != nil {
		return is(value)
	}
	return !strings.Contains(value, "/")
}
