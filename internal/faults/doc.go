// Package faults kills jobs in every known way, and checks for orphans and lost output.
//
// The package contains only tests. Each case of the matrix has a criterion: the result that a user would want. A
// case starts a job whose ranks report to the test (scene) and then causes a fault (act). It compares the result
// with the criterion (check), and searches /proc until no process carries the marker of the case. Orphans, lost or
// torn output, and a failure without a name fail the case.
//
//	test ── unix socket ──> rank, child of a rank, daemon, …    hello, then orders: "exit 3", "signal 11"
//	  │                        │
//	  └── FIFO "lifeline" ─────┘    a process exits once the test no longer holds it open
//
// The launcher is a parameter, so you can measure other launchers by the same criteria:
//
//	go test ./internal/faults -run TestMatrix -v -launcher torchrun
//	go test ./internal/faults -run TestMatrix -v -launcher 'srun -n {n}'
//
// TestHosts does the same to jobs over hosts of internal/testhosts. It cuts their links, or freezes or crashes the
// hosts (hostFault).
//
// `make test-faults` runs the matrix for gorun; `make soak` also runs it for other launchers.
package faults
