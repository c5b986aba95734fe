package program

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"slices"
	"strings"
)

// UsesNCCL reports whether a program that starts by argv, with the executable at path, is known to communicate by NCCL
// or RCCL: it links one of them, or is a Python file that imports PyTorch. A program that loads it in another way is
// not known.
func UsesNCCL(path string, argv []string) bool {
	if at := slices.IndexFunc(argv, func(word string) bool { return strings.HasSuffix(word, ".py") }); at >= 0 {
		return importsTorch(argv[at])
	}
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	return slices.ContainsFunc(libraries, func(name string) bool {
		return strings.HasPrefix(name, "libnccl.") || strings.HasPrefix(name, "librccl.") ||
			strings.HasPrefix(name, "libtorch")
	})
}

func importsTorch(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, sourceLimit))
	return bytes.Contains(text, []byte("import torch")) || bytes.Contains(text, []byte("from torch"))
}
