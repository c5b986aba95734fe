package nccl_test

import (
	"fmt"

	"gorun/env/nccl"
)

// The settings of a batch script. An unknown library (nccl.Found{}) leaves out the checks that need its version.
func ExampleLint() {
	script := []byte("export NCCL_DEBUG=WARN\nexport NCCL_SOCKET_IFNAM=eth0\n")
	for _, finding := range nccl.Lint(nccl.ParseFile("train.sh", script), nccl.Found{}) {
		fmt.Printf("%s:%d: %s: %s\n", finding.File, finding.Line, finding.Name, finding.Problem)
		fmt.Println(nccl.Nearest(finding.Name, nccl.Names()))
	}
	// Output:
	// train.sh:2: NCCL_SOCKET_IFNAM: unknown
	// [NCCL_SOCKET_IFNAME]
}
