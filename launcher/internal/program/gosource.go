package program

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// goFiles is a program of one or more .go files: the first arguments that end in
// .go belong to it, as in `go run`.
func (w *Request) goFiles(first file) (Resolved, *Error) {
	files := []string{first.open}
	args := w.Args
	for len(args) > 0 && strings.HasSuffix(args[0], ".go") {
		f, err := w.find(args[0])
		if err != nil {
			return Resolved{}, err
		}
		files, args = append(files, f.open), args[1:]
	}
	name := strings.TrimSuffix(path.Base(w.Name), ".go")
	return w.goProgram(name, path.Dir(first.open), files, args)
}

// goPackage is a program that is a directory with a Go main package.
func (w *Request) goPackage(f file) (Resolved, *Error) {
	names := goNames(f.open)
	switch {
	case len(names) == 0 && w.exists(w.Name+"/__main__.py"):
		return Resolved{}, refused(w.Name, "is a directory without Go files").hint("python3 " + word(f.exec) +
			" runs its __main__.py")
	case len(names) == 0:
		return Resolved{}, refused(w.Name, "is a directory without Go files")
	}
	other := ""
	for _, name := range names {
		switch clause := packageClause(f.open + "/" + name); clause {
		case "main":
			return w.goProgram(directoryName(f.open), f.open, []string{f.open}, w.Args)
		case "":
		default:
			other = clause
		}
	}
	return Resolved{}, refused(w.Name, "holds the Go package "+visible(other)+", which is not a program (package main)")
}

// goNames are the names of dir's Go files that are part of its package.
func goNames(dir string) []string {
	var names []string
	for _, name := range namesIn(dir) {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
			name[0] != '_' && name[0] != '.' {
			names = append(names, name)
		}
	}
	return names
}

// directoryName is the last element of a directory's path, "." and ".." resolved:
// what the program is called.
func directoryName(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	if base := path.Base(dir); base != "/" {
		return base
	}
	return "main"
}

// goProgram is a Go program that is made of targets (files, or one directory) in
// the directory dir.
func (w *Request) goProgram(name, dir string, targets, args []string) (Resolved, *Error) {
	tool, found := w.searchPATH("go")
	if !found || !tool.mayRun() {
		return Resolved{}, missing(w.Name, "is Go source, and there is no go command in PATH to build it")
	}
	build := &GoBuild{Name: name, program: w.Name, tool: tool.open, dir: buildDir(dir)}
	for _, target := range targets {
		local, err := build.target(target)
		if err != nil {
			return Resolved{}, refused(w.Name, "name its files from one directory: "+err.Error())
		}
		build.targets = append(build.targets, local)
	}
	argv := append([]string{name}, args...)
	return Resolved{Argv: argv, Kind: GoSource, ScriptArg: 1, Build: build}, nil
}

// buildDir is where go runs to build what stands in dir: in the launcher's own
// directory, so that the compiler's messages have paths that lead somewhere, or in
// dir if that belongs to another module (which go would refuse from here).
func buildDir(dir string) string {
	if module(dir) == module(".") {
		return "."
	}
	return dir
}

// module is the directory with the go.mod that holds for dir; "" is none.
func module(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(dir + "/go.mod"); err == nil {
			return dir
		}
		parent := path.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// target is the name of a file or directory for go, which runs in b.dir. A
// directory without ./ before it would be an import path.
func (b *GoBuild) target(name string) (string, error) {
	from, err := filepath.Abs(b.dir)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	local, err := filepath.Rel(from, to)
	if err != nil || strings.HasPrefix(local, "../") {
		return to, err
	}
	if local == "." {
		return ".", nil
	}
	return "./" + local, nil
}

// packageClause is the name in the package clause of a Go file, "" if there is none
// in its first 64 KiB or the file is excluded from every build.
func packageClause(name string) string {
	fd, err := openFile(name)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	text := make([]byte, 64<<10)
	n, _ := readAt(fd, text, 0)
	return clauseOf(string(text[:n]))
}

func clauseOf(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	for {
		text = strings.TrimLeft(text, " \t\r\n;")
		switch {
		case strings.HasPrefix(text, "//"):
			comment, rest, _ := strings.Cut(text, "\n")
			if strings.TrimSpace(comment) == "//go:build ignore" {
				return ""
			}
			text = rest
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text, "*/")
		default:
			fields := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n;/", r) })
			if len(fields) < 2 || fields[0] != "package" {
				return ""
			}
			return fields[1]
		}
	}
}
