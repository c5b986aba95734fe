// Command pack compresses the agents for `make gorun`: FILE.zst for each FILE, and a line for each in INDEX, with the
// architecture after FILE's hyphen, the size, and the SHA-256 of FILE and of FILE.zst with this source.
package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

//go:embed main.go
var source []byte

func main() {
	log.SetFlags(0)
	if err := pack(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal("pack: ", err)
	}
}

// pack leaves files that are right: beside this one, another make may compile them into its gorun.
func pack(index string, files []string) error {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(512<<10))
	if err != nil {
		return err
	}
	before, _ := os.ReadFile(index) // none at first
	var lines strings.Builder
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, arch, _ := strings.Cut(filepath.Base(path), "-")
		line := func(packed []byte) string {
			return fmt.Sprintf("%s %d %x %x\n", arch, len(content), sha256.Sum256(content),
				sha256.Sum256(append(packed, source...)))
		}
		packed, _ := os.ReadFile(path + ".zst")
		if !strings.Contains(string(before), line(packed)) {
			packed = encoder.EncodeAll(content, nil)
			if err := replace(path+".zst", packed); err != nil {
				return err
			}
		}
		lines.WriteString(line(packed))
	}
	if lines.String() == string(before) {
		return nil
	}
	return replace(index, []byte(lines.String()))
}

// replace never leaves a part of a file for others to read.
func replace(path string, content []byte) error {
	next := fmt.Sprint(path, ".", os.Getpid())
	if err := os.WriteFile(next, content, 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}
