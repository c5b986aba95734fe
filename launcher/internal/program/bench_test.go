package program

import (
	"os"
	"testing"
)

// BenchmarkResolve is what finding a program costs on the start-up path.
func BenchmarkResolve(b *testing.B) {
	for _, name := range []string{"true", "/bin/true"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Resolve(Request{Name: name, Lookup: os.Getenv}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
