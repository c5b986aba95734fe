package program

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

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

// surroundings are the files that the tables below start programs from: the working directory, bin in PATH, two
// environments.
func surroundings(t *testing.T) (dir string, lookup func(string) string) {
	sh := "#!/bin/sh\n"
	dir = folder(t, map[string]string{
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
	t.Chdir(dir)
	return dir, func(name string) string {
		if name == "PATH" {
			return "/nowhere:" + dir + "/bin/sub:" + dir + "/bin/"
		}
		return ""
	}
}

func TestResolve(t *testing.T) {
	dir, lookup := surroundings(t)
	bin := dir + "/bin/"
	for name, test := range map[string]struct {
		name                     string
		args                     []string
		start                    spec.Start
		interpreter, dir, search string
		extra                    map[string]string // environment
		path                     string
		argv                     []string
		kind                     Kind
		source                   string
		arg                      int
	}{
		"in PATH": {
			name: "tool", args: []string{"-n", "4"}, path: bin + "tool", argv: []string{"tool", "-n", "4"},
			arg: 1,
		},
		"PATH before the directory": {name: "both", path: bin + "both", argv: []string{"both"}, arg: 1},
		"only in the directory": {
			name: "trainer", path: "./trainer", argv: []string{"./trainer"}, arg: 1,
		},
		"no run bit in PATH": {name: "here", path: "./here", argv: []string{"./here"}, arg: 1},
		"with a slash":       {name: "./both", path: "./both", argv: []string{"./both"}, arg: 1},
		"below": {
			name: "sub/tool", path: "sub/tool", argv: []string{"sub/tool"}, arg: 1,
		},
		"absolute": {
			name: dir + "/trainer", path: dir + "/trainer", argv: []string{dir + "/trainer"}, arg: 1,
		},
		"in --chdir": {
			name: "./tool", dir: "sub", path: "./tool", argv: []string{"./tool"}, arg: 1,
		},
		"plain in --chdir": {
			name: "trainer", dir: "sub", path: dir + "/trainer", argv: []string{dir + "/trainer"}, arg: 1,
		},
		"only here, with --chdir": {
			name: "./trainer", dir: "sub", path: dir + "/./trainer", argv: []string{dir + "/./trainer"},
			arg: 1,
		},
		"Path before PATH": {
			name: "tool", search: "none:sub", path: "sub/tool", argv: []string{"tool"}, arg: 1,
		},
		"PATH after Path": {
			name: "tool", search: "none", path: bin + "tool", argv: []string{"tool"}, arg: 1,
		},
		"relative entry in PATH": {
			name: "tool", extra: map[string]string{"PATH": "sub"}, path: "sub/tool", argv: []string{"tool"},
			arg: 1,
		},
		"empty entry in PATH": {
			name: "trainer", extra: map[string]string{"PATH": ":/bin"}, path: "./trainer",
			argv: []string{"trainer"}, arg: 1,
		},
		"env -S": {name: "envpy", path: bin + "envpy", argv: []string{"envpy"}, arg: 1},
		"script": {
			name: "train.py", args: []string{"--lr", "1"}, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "train.py", "--lr", "1"}, kind: PythonScript, source: "./train.py", arg: 3,
		},
		"script with a slash": {
			name: "./train.py", path: bin + "python3", argv: []string{bin + "python3", "-u", "./train.py"},
			kind: PythonScript, source: "./train.py", arg: 3,
		},
		"script named like an option": {
			name: "-dash.py", path: bin + "python3", argv: []string{bin + "python3", "-u", "./-dash.py"},
			kind: PythonScript, source: "./-dash.py", arg: 3,
		},
		"script in --chdir": {
			name: "train.py", dir: "sub", path: bin + "python3",
			argv: []string{bin + "python3", "-u", "train.py"}, kind: PythonScript, source: "sub/./train.py", arg: 3,
		},
		"script here, with --chdir": {
			name: "plain.py", dir: "sub", path: bin + "python3",
			argv: []string{bin + "python3", "-u", dir + "/plain.py"}, kind: PythonScript, source: "plain.py", arg: 3,
		},
		"script before PATH": {
			name: "only.py", path: bin + "python3", argv: []string{bin + "python3", "-u", "only.py"},
			kind: PythonScript, source: "./only.py", arg: 3,
		},
		"script with run bit and #!": {
			name: "main.py", path: "./main.py", argv: []string{"./main.py"}, source: "./main.py", arg: 1,
		},
		"run bit without #!": {
			name: "plain.py", path: bin + "python3", argv: []string{bin + "python3", "-u", "plain.py"},
			kind: PythonScript, source: "./plain.py", arg: 3,
		},
		"torchrun ignores #!": {
			name: "main.py", start: spec.StartPython, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "main.py"}, kind: PythonScript, source: "./main.py", arg: 3,
		},
		"torchrun with a directory": {
			name: "dir", start: spec.StartPython, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "dir"},
			kind: PythonScript, source: "./dir/__main__.py", arg: 3,
		},
		"torchrun --no-python": {
			name: "main.py", start: spec.StartExec, path: "./main.py", argv: []string{"./main.py"},
			source: "./main.py", arg: 1,
		},
		"virtual environment": {
			name: "train.py", extra: map[string]string{"VIRTUAL_ENV": dir + "/venv", "CONDA_PREFIX": dir +
				"/conda"}, path: dir + "/venv/bin/python", argv: []string{dir + "/venv/bin/python", "-u", "train.py"},
			kind: PythonScript, source: "./train.py", arg: 3,
		},
		"conda": {
			name: "train.py", extra: map[string]string{"CONDA_PREFIX": dir + "/conda"},
			path: dir + "/conda/bin/python", argv: []string{dir + "/conda/bin/python", "-u", "train.py"}, kind: PythonScript,
			source: "./train.py", arg: 3,
		},
		"virtual environment that's gone": {
			name: "train.py", extra: map[string]string{"VIRTUAL_ENV": dir + "/gone"}, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "train.py"}, kind: PythonScript, source: "./train.py", arg: 3,
		},
		"named interpreter": {
			name: "train.py", interpreter: "python3.12",
			extra: map[string]string{"VIRTUAL_ENV": dir + "/venv"},
			path:  bin + "python3.12", argv: []string{bin + "python3.12", "-u", "train.py"}, kind: PythonScript,
			source: "./train.py", arg: 3,
		},
		"interpreter by its path": {
			name: "train.py", interpreter: "venv/bin/python", path: "venv/bin/python",
			argv: []string{"venv/bin/python", "-u", "train.py"}, kind: PythonScript, source: "./train.py", arg: 3,
		},
		"module": {
			name: "flat", start: spec.StartModule, args: []string{"a"}, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "-m", "flat", "a"}, kind: PythonModule, source: "./flat.py", arg: 4,
		},
		"module in a package": {
			name: "pkg.mod", start: spec.StartModule, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "-m", "pkg.mod"}, kind: PythonModule, source: "pkg/mod.py", arg: 4,
		},
		"module that is a package": {
			name: "pkg", start: spec.StartModule, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "-m", "pkg"}, kind: PythonModule, source: "pkg/__main__.py", arg: 4,
		},
		"module behind a package": {
			name: "hidden", start: spec.StartModule, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "-m", "hidden"}, kind: PythonModule, source: "hidden/__main__.py", arg: 4,
		},
		"module in a namespace": {
			name: "name.space", start: spec.StartModule, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "-m", "name.space"}, kind: PythonModule, source: "name/space.py", arg: 4,
		},
		"module elsewhere": {
			name: "json.tool", start: spec.StartModule, path: bin + "python3",
			argv: []string{bin + "python3", "-u", "-m", "json.tool"}, kind: PythonModule, arg: 4,
		},
		"python with a script": {
			name: "python3", args: []string{"-u", "-X", "dev", "train.py", "x.py"}, path: bin + "python3",
			argv: []string{"python3", "-u", "-X", "dev", "train.py", "x.py"}, source: "./train.py", arg: 1,
		},
		"python -m": {
			name: "python3", args: []string{"-m", "pkg.mod"}, path: bin + "python3",
			argv: []string{"python3", "-m", "pkg.mod"}, source: "pkg/mod.py", arg: 1,
		},
		"python -c": {
			name: "python3", args: []string{"-c", "train.py"}, path: bin + "python3",
			argv: []string{"python3", "-c", "train.py"}, arg: 1,
		},
		"python -": {
			name: "python3", args: []string{"-", "train.py"}, path: bin + "python3",
			argv: []string{"python3", "-", "train.py"}, arg: 1,
		},
		"python with a missing script": {
			name: "python3", args: []string{"gone.py"}, path: bin + "python3",
			argv: []string{"python3", "gone.py"}, arg: 1,
		},
		"python alone": {
			name: "python3", args: []string{"-u"}, path: bin + "python3", argv: []string{"python3", "-u"},
			arg: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(spec.Command{
				Name: test.name, Args: test.args, Start: test.start, Interpreter: test.interpreter, Dir: test.dir,
				Path: test.search,
			}, func(name string) string {
				if value, ok := test.extra[name]; ok {
					return value
				}
				return lookup(name)
			})
			require.NoError(t, err)
			require.Equal(t, Resolved{
				Path: test.path, Argv: test.argv, Kind: cmp.Or(test.kind, Executable), Source: test.source,
				ScriptArg: test.arg,
			}, got)
		})
	}
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
