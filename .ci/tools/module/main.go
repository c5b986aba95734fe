// Command module gives this Go module another path: `make module MODULE=example.org/you/gorun`. It rewrites go.mod,
// imports, the names of packages and symbols in other texts, and the address of the repository.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) != 3 {
		fail(errors.New("usage: module DIRECTORY PATH"))
	}
	if err := rename(os.Args[1], os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "module:", err)
	os.Exit(1)
}

func rename(root, path string) error {
	if err := module.CheckPath(path); err != nil {
		return fmt.Errorf("%w\ntry: make module MODULE=example.org/you/gorun", err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	old := modfile.ModulePath(text)
	if old == path {
		fmt.Println("The module path is", path, "already.")
		return nil
	}
	names, files := 0, 0
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && built(root, name) {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		text, addresses := readdress(text, old, path)
		changed, n := rewrite(text, root, old, path)
		n += addresses
		if n == 0 {
			return nil
		}
		names, files = names+n, files+1
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(name, changed, info.Mode().Perm())
	})
	if err != nil {
		return err
	}
	fmt.Printf("The module path is %s, no longer %s: %d names changed in %d files.\n", path, old, names, files)
	fmt.Println("`go vet ./...` checks it. " +
		"The profile that gorun is compiled by has the old names: `make profile` measures again.")
	return nil
}

// built reports whether a directory holds what was built or installed, or the history.
func built(root, name string) bool {
	name, err := filepath.Rel(root, name)
	return err == nil && (name == ".git" || name == "bin" || name == "build" || strings.HasPrefix(name, ".venv"))
}

// readdress replaces the address of the repository. A path without a dot is that of a module without one.
func readdress(text []byte, old, path string) (changed []byte, n int) {
	before, _, _ := module.SplitPathVersion(old)
	after, _, _ := module.SplitPathVersion(path)
	if !strings.Contains(before, ".") {
		before = "example.org/" + before
	}
	address := []byte("https://" + before)
	return bytes.ReplaceAll(text, address, []byte("https://"+after)), bytes.Count(text, address)
}

// rewrite replaces the module path where it is whole, or begins the name of a package: the rest of it is a
// directory of the module. Others that look like it are parts of protocols, as gorun/comm/%s, and names of files.
func rewrite(text []byte, root, old, path string) (changed []byte, n int) {
	quoted := regexp.QuoteMeta(old)
	pattern := regexp.MustCompile(`(?m)^module ` + quoted + `(?:/|$)|` + // in go.mod
		`"` + quoted + `/"|` + // what begins all names of packages
		`=` + quoted + `(?:@v|=)|` + // go mod edit -require=PATH@VERSION -replace=PATH=DIRECTORY
		`(?:^|[^\w./@~-])` + quoted + `((?:/[\w.-]+)+/?)`)
	last := 0
	for _, at := range pattern.FindAllSubmatchIndex(text, -1) {
		if at[2] >= 0 && !isPackage(root, string(text[at[2]:at[3]])) {
			continue
		}
		start := at[0] + bytes.Index(text[at[0]:at[1]], []byte(old))
		changed = append(append(changed, text[last:start]...), path...)
		last = start + len(old)
		n++
	}
	return append(changed, text[last:]...), n
}

// isPackage reports whether a name such as /launcher/job.Spec or /env/... is that of a package or of something in one.
func isPackage(root, name string) bool {
	dir, last := filepath.Split(strings.TrimSuffix(name, "/..."))
	last, _, _ = strings.Cut(last, ".")
	info, err := os.Stat(filepath.Join(root, dir, strings.TrimSuffix(last, "_test")))
	return last != "" && err == nil && info.IsDir()
}
