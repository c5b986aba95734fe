// Package ctest compiles the kernels of the CPU back end (comm/internal/cpu/kernels.h) by themselves, without Go around them, and tests and
// measures them: against a reference in C, under the sanitizers, as cgo optimises them, and for arm64 in an emulator.
package ctest
