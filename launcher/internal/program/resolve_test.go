package program

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
)

// Sizes of the ELF format for 64 bits.
const (
	headerSize  = 64
	segmentSize = 56
)

// binaryHead is an ELF header of this machine without segments: nothing but a kernel would refuse it.
func binaryHead(change func([]byte)) string {
	head := make([]byte, 256)
	copy(head, "\x7fELF\x02\x01\x01")
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	binary.LittleEndian.PutUint16(head[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(head[18:], uint16(machine))
	binary.LittleEndian.PutUint16(head[54:], segmentSize)
	if change != nil {
		change(head)
	}
	return string(head)
}

// withLoader is a binary whose only segment names a loader.
func withLoader(loader string) string {
	return binaryHead(func(head []byte) {
		binary.LittleEndian.PutUint64(head[32:], headerSize) // e_phoff
		binary.LittleEndian.PutUint16(head[56:], 1)
		segment := head[headerSize:]
		binary.LittleEndian.PutUint32(segment, uint32(elf.PT_INTERP))
		binary.LittleEndian.PutUint64(segment[8:], 200)
		binary.LittleEndian.PutUint64(segment[32:], uint64(len(loader)+1))
		copy(head[200:], loader)
	})
}

// folder is a directory with files for a test. A name that ends in * has the run bit, content that begins with -> is a
// link.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		mode := os.FileMode(0o644)
		if trimmed, ok := strings.CutSuffix(name, "*"); ok {
			name, mode = trimmed, 0o755
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(content, "->"); ok {
			require.NoError(t, os.Symlink(target, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
	return dir
}

// testCommands resolves the command lines of a file in testdata, whose head explains its form, in a directory. values
// are words of the file and what they stand for.
func testCommands(t *testing.T, file, dir, path string, values ...string) {
	archive, err := txtar.ParseFile("testdata/" + file)
	require.NoError(t, err)
	t.Chdir(dir)
	replacer := strings.NewReplacer(append(values, "$DIR", dir)...)
	for _, test := range archive.Files {
		t.Run(test.Name, func(t *testing.T) {
			line, want, _ := strings.Cut(replacer.Replace(string(test.Data)), "\n")
			environ := map[string]string{"PATH": path}
			require.Equal(t, want, outcome(Resolve(parseCommand(strings.Fields(line), environ), func(name string) string {
				return environ[name]
			})))
		})
	}
}

// parseCommand returns the command that words describe, and adds their variables to environ.
func parseCommand(words []string, environ map[string]string) (c spec.Command) {
	starts := map[string]spec.Start{
		"--no-python": spec.StartExec, "--run-path": spec.StartPython, "-m": spec.StartModule,
	}
	values := map[string]*string{"--python": &c.Interpreter, "--chdir": &c.Dir, "--path": &c.Path}
	for {
		word := words[0]
		words = words[1:]
		if name, value, isVariable := strings.Cut(word, "="); isVariable {
			environ[name] = value
		} else if start, isStart := starts[word]; isStart {
			c.Start = start
		} else if value := values[word]; value != nil {
			*value, words = words[0], words[1:]
		} else {
			if c.Name, c.Args = word, words; word[0] == '"' {
				c.Name, _ = strconv.Unquote(word)
			}
			return c
		}
	}
}

// outcome formats a result of Resolve.
func outcome(r Resolved, err error) string {
	if e, refused := errors.AsType[*Error](err); refused {
		text := fmt.Sprintf("%d %s\n", e.Code, e)
		if e.Hint != "" {
			text += "hint: " + e.Hint + "\n"
		}
		return text
	}
	argv := strings.Join(slices.Insert(r.Argv, r.ScriptArg, "|"), " ")
	text := fmt.Sprintf("%s: %s\nargv: %s\n", r.Kind, r.Path, argv)
	if r.Source != "" {
		text += "source: " + r.Source + "\n"
	}
	return text
}

func TestResolve(t *testing.T) {
	sh := "#!/bin/sh\n"
	dir := folder(t, map[string]string{
		"trainer*": binaryHead(nil), "here*": binaryHead(nil), "both*": sh, "-dash.py": "x = 1\n",
		"train.py": "print()\n", "main.py*": "#!/usr/bin/env python3\n", "plain.py*": "print()\n", "only.py": "x\n",
		"pkg/__init__.py": "", "pkg/__main__.py": "", "pkg/mod.py": "", "flat.py": "", "name/space.py": "",
		"hidden.py": "", "hidden/__init__.py": "", "hidden/__main__.py": "",
		"dir/__main__.py": "", "sub/tool*": sh, "sub/train.py": "",
		"noread*": sh, "bin/both*": sh, "bin/tool*": sh, "bin/only.py*": sh, "bin/python3*": binaryHead(nil),
		"bin/python3.12*": binaryHead(nil),
		"bin/locked":      sh, "bin/here": sh, "bin/sub/x": "", "bin/envpy*": "#!/usr/bin/env -S python3 -u\n",
		"venv/bin/python*": binaryHead(nil), "conda/bin/python*": binaryHead(nil),
	})
	testCommands(t, "resolve.txtar", dir, "/nowhere:"+dir+"/bin/sub:"+dir+"/bin/")
}

// Without PATH the system's own is searched, as execvp does.
func TestResolveWithoutPATH(t *testing.T) {
	got, err := Resolve(spec.Command{Name: "sh"}, noEnvironment)
	require.NoError(t, err)
	require.Contains(t, []string{"/bin/sh", "/usr/bin/sh"}, got.Path)
}

// A program that may be executed but not be read is the kernel's to judge.
func TestResolveWithoutReadPermission(t *testing.T) {
	dir := folder(t, map[string]string{"secret*": "no text of a program"})
	require.NoError(t, os.Chmod(dir+"/secret", 0o711))
	got, err := unprivileged(t, dir, spec.Command{Name: dir + "/secret"})
	require.NoError(t, err)
	require.Equal(t, dir+"/secret", got.Path)
}

// The arguments of a request are not shared with the answer.
func TestResolveCopiesArguments(t *testing.T) {
	args := append(make([]string, 0, 8), "a")
	got, err := Resolve(spec.Command{Name: "/bin/sh", Args: args}, noEnvironment)
	require.NoError(t, err)
	got.Argv = append(got.Argv[:1], "changed")
	require.Equal(t, []string{"a"}, args)
}

// unprivileged resolves as a user who owns nothing, in a thread of its own whose identity dies with it. The directory
// and the test's own one above it are opened for that user. Without root the present user takes the part.
func unprivileged(t *testing.T, dir string, command spec.Command) (got Resolved, err error) {
	t.Helper()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	if os.Geteuid() != 0 {
		return Resolve(command, noEnvironment)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			err = errno
			return
		}
		got, err = Resolve(command, noEnvironment)
	}()
	<-done
	return got, err
}

func noEnvironment(string) string { return "" }
