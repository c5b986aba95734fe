// Package interop runs gorun as a user would, with the programs that users run. It covers PyTorch (under its own
// torchrun for comparison), Python modules, nested jobs and hundreds of ranks.
//
// The package contains only tests. They build cmd/gorun once, start it as a process, and check its output and the
// processes that are left. Every job carries a mark in its environment; after each test no process may carry it.
// Ranks are this test binary itself (see TestMain), programs of examples/, or small compiled programs. The folder
// guest provides a whole virtual machine for them. Tests that need PyTorch get it from internal/testneeds.
package interop
