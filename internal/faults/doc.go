// Package faults kills jobs in every way that it can think of, and looks at what is left of them.
//
// It is only tests. Each case of the matrix has a criterion in words: what a user would want to happen. A case starts a
// job whose ranks report to the test (scene), does something terrible to one of its processes (act), compares what came
// out with the criterion (check), and then searches /proc until no process carries the case's marker any more. What is
// left, lost, torn or unnamed fails it.
//
//	test ── unix socket ──> rank, child of a rank, daemon, …    hello, then orders: "exit 3", "signal 11"
//	  │                        │
//	  └── FIFO "lifeline" ─────┘    whoever finds no reader there ends, whatever happened to the test
//
// The launcher is a parameter, so that others can be measured by the same criteria:
//
//	go test ./internal/faults -run TestMatrix -v -launcher torchrun
//	go test ./internal/faults -run TestMatrix -v -launcher 'srun -n {n}'
//
// TestHosts does the same to jobs over hosts of internal/testhosts, whose links are cut, which are frozen, or crash
// (hostFault).
//
// `make test-faults` runs the matrix for gorun, `make soak` for its peers as well.
package faults
