package program

import (
	"os"
	"testing"

	"gorun/launcher/internal/spec"
)

// BenchmarkResolve is what finding a program costs on the start-up path.
func BenchmarkResolve(b *testing.B) {
	for _, name := range []string{"true", "/bin/true"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Resolve(spec.Command{Name: name}, os.Getenv); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
