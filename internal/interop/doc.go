// Package interop runs gorun as a user would, with the programs that users have: PyTorch under its own torchrun for
// comparison, Python modules, jobs inside jobs, hundreds of ranks.
//
// It is only tests. They build cmd/gorun once, start it as a process and look at what comes out and what stays behind:
// every job carries a mark in its environment, and after each test no process may carry it any more. Ranks are this
// test binary itself (see TestMain), programs of examples/, or compiled trifles; the folder guest is a whole machine
// for them. What needs PyTorch asks internal/testneeds for it.
package interop
