package plan

import (
	"slices"
	"strings"

	"gorun/env"
)

// nodeLocal are variables whose values only the rank's node can provide: its files and directories, and the
// addresses of its servers.
var nodeLocal = []string{
	env.VarTorchelasticErrorFile, env.VarJobKey, "PWD", "PMI_FD", "PMI_PORT", "PMIX_SERVER_URI3",
	env.VarTorchFRDumpTempFile, env.VarTorchNCCLDebugInfoTempFile, env.VarTorchNCCLDebugInfoPipeFile,
}

// safeValue checks the values of some variables. Values of other variables must not contain a slash.
var safeValue = map[string]func(value string) bool{
	env.VarTorchelasticRunID: anyText, // not a file name
	env.VarRoleName:          anyText,
	env.VarJobWorld:          anyText,
	openMPIDaemon:            func(value string) bool { return value == nowhere },
	// NCCL on the node listens there and answers status queries.
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

// Accepts reports whether a remote launcher may set this variable in ranks of a node that another user
// started. [Build] must be able to set the variable, and the value must not name a file on the node.
func Accepts(name, value string) bool {
	if !Sets(name) || slices.Contains(nodeLocal, name) {
		return false
	}
	if is := safeValue[name]; is != nil {
		return is(value)
	}
	return !strings.Contains(value, "/")
}
