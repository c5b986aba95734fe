// Package ctest compiles the C of the CPU back end (comm/internal/cpu) by itself, without Go around it, and tests and
// measures it: the kernels (kernels.h) against a reference in C, and the engine (engine.h) with ranks that are threads.
// Both under the sanitizers and as cgo optimises them, the kernels also for arm64 in an emulator.
package ctest
