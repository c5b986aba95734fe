package program

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// goFiles resolves a program of .go files: as in `go run`, all leading arguments that end in .go belong to it.
func (req *request) goFiles(first file) (Resolved, *Error) {
	files := []string{first.open}
	args := req.Args
	for len(args) > 0 && strings.HasSuffix(args[0], ".go") {
		f, err := req.find(args[0])
		if err != nil {
			return Resolved{}, err
		}
		files, args = append(files, f.open), args[1:]
	}
	name := strings.TrimSuffix(path.Base(req.Name), ".go")
	return req.goProgram(name, path.Dir(first.open), files, args)
}

// goPackage resolves a directory with a Go main package.
func (req *request) goPackage(f file) (Resolved, *Error) {
	names := goNames(f.open)
	switch {
	case len(names) == 0 && req.exists(req.Name+"/__main__.py"):
		return Resolved{}, refused(req.Name, "is a directory, without a Go program").
			hint("run `gorun python3 " + word(f.exec) + "` to start its __main__.py")
	case len(names) == 0:
		return Resolved{}, refused(req.Name, "is a directory, without a Go program")
	}
	other := ""
	for _, name := range names {
		clause := packageClause(f.open + "/" + name)
		if clause == "main" && module(f.open) == "" && req.lookup("GO111MODULE") != "off" {
			return Resolved{}, refused(req.Name, "is a directory, and no go.mod makes its Go files a program").
				hint("run `gorun " + word(f.exec+"/"+name) + "`")
		}
		if clause == "main" {
			return req.goProgram(directoryName(f.open), f.open, []string{f.open}, req.Args)
		}
		other = cmp.Or(clause, other)
	}
	return Resolved{}, refused(req.Name, "holds the Go package "+visible(other)+", which is not a program (package main)")
}

// goNames lists the Go files of the package in dir.
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

// directoryName returns the last element of a directory's absolute path.
func directoryName(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	if base := path.Base(dir); base != "/" {
		return base
	}
	return "main"
}

// goProgram resolves a Go program of targets (files, or one directory) in the directory dir.
func (req *request) goProgram(name, dir string, targets, args []string) (Resolved, *Error) {
	tool, found := req.searchPATH("go")
	if !found || !tool.mayRun() {
		return Resolved{}, missing(req.Name, "is Go source, and there is no go command in PATH to build it")
	}
	build := &GoBuild{Name: name, program: req.Name, tool: tool.open, dir: buildDir(dir)}
	for _, target := range targets {
		local, err := build.target(target)
		if err != nil {
			return Resolved{}, refused(req.Name, "name its files from one directory: "+err.Error())
		}
		build.targets = append(build.targets, local)
	}
	argv := append([]string{name}, args...)
	return Resolved{Argv: argv, Kind: GoSource, ScriptArg: 1, Build: build}, nil
}

// buildDir returns go's working directory: the launcher's, so that the compiler's messages have useful paths, or dir if
// it belongs to another module, which go would refuse otherwise.
func buildDir(dir string) string {
	if module(dir) == module(".") {
		return "."
	}
	return dir
}

// module returns the directory with the go.mod for dir; "" if none exists.
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

// target returns the name of a file or directory for go in b.dir. A directory without ./ would be an import path.
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

// packageClause returns the package name of a Go file. It returns "" if the first 64 KiB have none, or if every build
// excludes the file.
func packageClause(name string) string {
	f, err := openFile(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := headOf(f, 64<<10)
	return clauseOf(string(text))
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
