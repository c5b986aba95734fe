package program

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/spec"
)

const (
	printHello = "package main\n\nfunc main() { println(hello()) }\n"
	hello      = "package main\n\nfunc hello() string { return \"hello\" }\n"
)

type command = spec.Command

// build resolves and builds in a directory, and returns the program and what the compiler said.
func build(t *testing.T, request command) (resolved Resolved, program, said string, err error) {
	t.Helper()
	testneeds.Program(t, "go", "go")
	resolved, err = Resolve(request, os.Getenv)
	require.NoError(t, err)
	require.Equal(t, GoSource, resolved.Kind)
	require.Empty(t, resolved.Path)
	program = filepath.Join(t.TempDir(), resolved.Build.Name)
	var stderr bytes.Buffer
	err = resolved.Build.Run(t.Context(), program, os.Environ(), &stderr)
	return resolved, program, stderr.String(), err
}

func TestBuild(t *testing.T) {
	dir := folder(t, map[string]string{
		"one.go": strings.Replace(printHello, "hello()", `"hello"`, 1), "two.go": printHello, "three.go": hello,
		"go.mod":         "module m\n\ngo 1.26\n",
		"cmd/hi/main.go": "// Doc.\n\n/* more */ package main\n\nimport \"m/lib\"\n\nfunc main() { println(lib.Hello) }\n",
		"lib/lib.go":     "package lib\n\nconst Hello = \"hello\"\n", "lib/gen.go": "//go:build ignore\n\npackage main\n",
		"other/go.mod": "module other\n\ngo 1.26\n", "other/main.go": strings.Replace(printHello, "hello()", `"hello"`, 1),
		"other/lib/x.go": "package lib\n",
		"x.go/main.go":   strings.Replace(printHello, "hello()", `"hello"`, 1),
	})
	t.Chdir(dir)
	for name, test := range map[string]struct {
		request command
		called  string
		argv    []string
	}{
		"a file": {
			request: command{Name: "one.go", Args: []string{"-n", "x.go"}}, called: "one", argv: []string{"one", "-n", "x.go"},
		},
		"files": {
			request: command{Name: "./two.go", Args: []string{"three.go", "arg", "four.go"}}, called: "two",
			argv: []string{"two", "arg", "four.go"},
		},
		"a package": {
			request: command{Name: "./cmd/hi", Args: []string{"x"}}, called: "hi", argv: []string{"hi", "x"},
		},
		"a package without a slash": {request: command{Name: "other"}, called: "other", argv: []string{"other"}},
		"the working directory":     {request: command{Name: ".", Dir: "cmd/hi"}, called: "hi", argv: []string{"hi"}},
		"named like a file":         {request: command{Name: "x.go"}, called: "x.go", argv: []string{"x.go"}},
		"by its absolute path":      {request: command{Name: dir + "/one.go"}, called: "one", argv: []string{"one"}},
		"elsewhere":                 {request: command{Name: "one.go", Dir: "lib"}, called: "one", argv: []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			resolved, program, said, err := build(t, test.request)
			require.NoError(t, err, "%s", said)
			require.Empty(t, said)
			require.Equal(t, test.called, resolved.Build.Name)
			require.Equal(t, test.argv, resolved.Argv)
			require.Equal(t, 1, resolved.ScriptArg)
			words, err := exec.Command(program).CombinedOutput()
			require.NoError(t, err)
			require.Equal(t, "hello\n", string(words))
		})
	}
}

func TestBuildThatFails(t *testing.T) {
	dir := folder(t, map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "cmd/bad/main.go": "package main\n\nfunc main() { undefined1() }\n",
		"far.go": "package main\n\nfunc main() {}\n", "sub/near.go": "package main\n",
		"my dir/bad one.go": "package main\n\nfunc main() { undefined1() }\n", "own/go.mod": "module own\n",
		"own/bad.go":   "package main\n\nfunc main() { undefined1() }\n",
		"later/lib.go": "package lib\n", "later/main_windows.go": "package main\n",
	})
	t.Chdir(dir)
	for name, test := range map[string]struct {
		request      command
		reason, says string
	}{
		"does not compile": {
			request: command{Name: "./cmd/bad"},
			reason:  "./cmd/bad: cannot build: go build -o /dev/null ./cmd/bad: exit status 1",
			says:    "cmd/bad/main.go:3:15: undefined: undefined1\n",
		},
		"from two directories": {
			request: command{Name: "far.go", Args: []string{"sub/near.go"}}, reason: "far.go: cannot build",
			says: "directory",
		},
		"with blanks": {
			request: command{Name: "my dir/bad one.go"},
			reason:  "my dir/bad one.go: cannot build: go build -o /dev/null './my dir/bad one.go': exit status 1",
			says:    "undefined1\n",
		},
		"of another module": {
			request: command{Name: "own/bad.go"},
			reason:  "own/bad.go: cannot build: go build -C own -o /dev/null ./bad.go: exit status 1",
			says:    "undefined1\n",
		},
		"the directory itself": {
			request: command{Name: "own/."},
			reason:  "own/.: cannot build: go build -C own/. -o /dev/null .: exit status 1",
			says:    "undefined1\n",
		},
		"not on this system": {request: command{Name: "later"}, reason: "later: go build made no program of it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, said, err := build(t, test.request)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, 126, e.Code)
			require.Contains(t, e.Error(), test.reason)
			require.Contains(t, said, test.says)
			if _, command, found := strings.Cut(e.Reason, "cannot build: "); found {
				command = strings.TrimSuffix(command, ": exit status 1")
				again, err := exec.Command("sh", "-c", command).CombinedOutput()
				require.ErrorContains(t, err, "exit status 1", command)
				require.Equal(t, said, strings.ReplaceAll(string(again), "go: ", ""),
					"the command can be pasted, and says the same")
			}
		})
	}
	_, err := Resolve(spec.Command{Name: "far.go", Args: []string{"gone.go"}}, os.Getenv)
	require.EqualError(t, err, "gone.go: not found in PATH or the working directory")
	_, err = Resolve(spec.Command{Name: "far.go"}, func(string) string { return dir })
	require.EqualError(t, err, "far.go: is Go source, and there is no go command in PATH to build it")
	require.Equal(t, 127, err.(*Error).Code)
}

// What go says itself is passed on without its name, and a missing build cache has a
// way out.
func TestBuildWithoutCache(t *testing.T) {
	t.Chdir(folder(t, map[string]string{"x.go": hello, "pkg/main.go": hello}))
	_, err := Resolve(spec.Command{Name: "./pkg"}, os.Getenv)
	require.EqualError(t, err, "./pkg: is a directory, and no go.mod makes its Go files a program")
	require.Equal(t, "run `gorun ./pkg/main.go`", err.(*Error).Hint)

	r, err := Resolve(spec.Command{Name: "x.go"}, os.Getenv)
	require.NoError(t, err)
	for _, cache := range []string{"", "GOCACHE=/dev/null/x", "GOCACHE=off"} {
		var stderr bytes.Buffer
		err = r.Build.Run(t.Context(), filepath.Join(t.TempDir(), "x"),
			[]string{"PATH=" + os.Getenv("PATH"), "GOTOOLCHAIN=local", cache}, &stderr)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "name a directory for Go's build cache: `export GOCACHE=DIR`", e.Hint, stderr.String())
	}
}

func TestGoOutput(t *testing.T) {
	for _, size := range []int{1, 3, 100} {
		var out bytes.Buffer
		w := &goOutput{to: &out}
		for piece := range slices.Chunk([]byte("go: one\ntwo go: x\n\ngo: end"), size) {
			n, err := w.Write(piece)
			require.NoError(t, err)
			require.Equal(t, len(piece), n)
		}
		w.flush()
		require.Equal(t, "one\ntwo go: x\n\nend", out.String())
		require.False(t, w.noCache)
	}
}

// TestMain lets the test binary be a go command that builds for ever, with a child that does so too.
func TestMain(m *testing.M) {
	switch os.Getenv("GORUN_TEST_GO") {
	case "build":
		child := exec.Command("/proc/self/exe")
		child.Env, child.Stdout, child.Stderr = append(os.Environ(), "GORUN_TEST_GO=compile"), os.Stdout, os.Stderr
		_ = child.Run()
		os.Exit(1)
	case "compile":
		_, err := syscall.Open(os.Getenv("GORUN_TEST_FIFO"), syscall.O_RDWR, 0) // held until the end
		if err != nil {
			panic(err)
		}
		_, _ = os.Stderr.WriteString("compiling\n")
		for {
			_ = syscall.Pause()
		}
	}
	os.Exit(m.Run())
}

// endless is a writer that ends a context when something is written.
type endless struct{ end context.CancelCauseFunc }

var errEnough = errors.New("enough")

func (w endless) Write(p []byte) (int, error) {
	w.end(errEnough)
	return len(p), nil
}

// Ending a build ends the compilers too.
func TestBuildEndsWithItsContext(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := folder(t, map[string]string{"x.go": hello, "bin/go": "->" + self})
	t.Chdir(dir)
	require.NoError(t, syscall.Mkfifo("held", 0o600))
	held, err := os.OpenFile("held", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer held.Close()
	r, err := Resolve(spec.Command{Name: "x.go"}, func(string) string { return dir + "/bin" })
	require.NoError(t, err)

	ctx, cancel := context.WithCancelCause(t.Context())
	err = r.Build.Run(ctx, dir+"/out", []string{"GORUN_TEST_GO=build", "GORUN_TEST_FIFO=" + dir + "/held"},
		endless{cancel})
	require.ErrorIs(t, err, errEnough)
	require.NoError(t, held.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = held.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the compiler still holds the pipe")
}

// What go has built is looked at: GOOS and GOARCH may be meant for another host.
func TestBuildForAnotherMachine(t *testing.T) {
	dir := folder(t, map[string]string{"out*": binaryHead(func(h []byte) { binary.LittleEndian.PutUint16(h[18:], 243) })})
	err := (&GoBuild{program: "./x"}).check(dir + "/out")
	require.ErrorContains(t, err, "./x: is built for riscv64, this host is ")
}

func TestPackageClause(t *testing.T) {
	for text, want := range map[string]string{
		"package main\n": "main", "\ufeffpackage x": "x", "// package a\npackage b // c": "b",
		"/* package a */ package b;":       "b",
		"//go:build linux\n\npackage main": "main", "//go:build ignore\n\npackage main": "", "": "", "package": "",
		"/* never closed": "",
		"import x":        "", "package\n\tmain\n": "main", "package main/* x */": "main",
	} {
		require.Equal(t, want, clauseOf(text), "%q", text)
	}
}
