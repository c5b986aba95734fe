package sysfs

import "testing"

// This benchmark measures the reads at job start: the allowed CPUs and their quota, with and without
// the GPUs.
func BenchmarkRead(b *testing.B) {
	for name, needs := range map[string]Needs{
		"CPUs": {CPUs: true}, "GPUs": {GPUs: true}, "all": {CPUs: true, Memory: true, GPUs: true, Driverless: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Read(needs)
			}
		})
	}
}
