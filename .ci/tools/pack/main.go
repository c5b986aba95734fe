// Command pack compresses the agents for `make gorun`: FILE.zst for each FILE, and a line for each in INDEX, with the
// architecture after FILE's hyphen, the size, and the SHA-256 of FILE and of FILE.zst.
package main

import (
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	log.SetFlags(0)
	if err := pack(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal("pack: ", err)
	}
}

func pack(index string, files []string) error {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		packed := encoder.EncodeAll(content, nil)
		if err := os.WriteFile(path+".zst", packed, 0o644); err != nil {
			return err
		}
		_, arch, _ := strings.Cut(filepath.Base(path), "-")
		fmt.Fprintf(&lines, "%s %d %x %x\n", arch, len(content), sha256.Sum256(content), sha256.Sum256(packed))
	}
	return os.WriteFile(index, []byte(lines.String()), 0o644)
}
