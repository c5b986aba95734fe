package sysfs

import "testing"

// What a start pays for: the allowed CPUs and their quota, and the GPUs besides.
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
