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
	return uses(path, argv, []string{"libnccl.", "librccl.", "libtorch"}, "torch")
}

// UsesMPI reports whether a program links an MPI library, or is a Python file that imports mpi4py. It does not detect
// programs that load MPI in another way, such as by a shell script.
func UsesMPI(path string, argv []string) bool { return uses(path, argv, []string{"libmpi"}, "mpi4py") }

// uses reports whether an executable links a library whose name begins with one of prefixes, or a Python file imports
// a module.
func uses(path string, argv, prefixes []string, module string) bool {
	if at := slices.IndexFunc(argv, func(word string) bool { return strings.HasSuffix(word, ".py") }); at >= 0 {
		return imports(argv[at], module)
	}
	return slices.ContainsFunc(librariesOf(path), func(name string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// librariesOf returns the libraries that a file in ELF format links.
func librariesOf(path string) []string {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.ImportedLibraries()
	return names
}

func imports(path, module string) bool {
	text, _ := readSource(path)
	return bytes.Contains(text, []byte("import "+module)) || bytes.Contains(text, []byte("from "+module))
}
