package program

import (
	"bytes"
	"debug/elf"
	"slices"
	"strings"
)

// UsesNCCL reports whether a program, given by its executable and argv, links NCCL or RCCL, or is a Python file that
// imports PyTorch. It does not detect programs that load NCCL in another way.
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
	text, _ := readSource(path)
	return bytes.Contains(text, []byte("import torch")) || bytes.Contains(text, []byte("from torch"))
}
