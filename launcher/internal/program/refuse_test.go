package program

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
)

func TestRefuse(t *testing.T) {
	long := strings.Repeat("/long", 60)
	sh := "#!/bin/sh\n"
	dir := folder(t, map[string]string{
		"trainer*": binaryHead(nil), "train.py": "x\n", "notes.txt": "hello\n", "solve.f90": "end\n", "two words*": sh,
		"norun": sh, "norun.sh": "echo\n", "elf": binaryHead(nil),
		"empty*": "", "text*": "echo hello\n", "text.pl*": "print 1\n", "noise*": "\x00\x01\x02\x00",
		"dangling": "->nowhere", "loop": "->loop",
		"mac*": "\xcf\xfa\xed\xfe\x00\x00\x00\x00", "windows*": "MZ\x00\x00",
		"cut*": "\x7fELF\x02\x01\x01", "foreign*": binaryHead(func(h []byte) { binary.LittleEndian.PutUint16(h[18:], 243) }),
		"big*":    binaryHead(func(h []byte) { h[5] = 2; h[18], h[19] = 0, 22 }),
		"object*": binaryHead(func(h []byte) { h[16] = byte(elf.ET_REL) }),
		"core*":   binaryHead(func(h []byte) { h[16] = byte(elf.ET_CORE) }),
		"musl*":   withLoader("/lib/ld-musl-of-no-machine.so.1"), "nix*": withLoader("/nix/store/x/ld.so"),
		"segments*": binaryHead(func(h []byte) { h[32], h[56] = 0xff, 3 }), "odd*": binaryHead(func(h []byte) { h[54] = 1 }),
		"far*":   binaryHead(func(h []byte) { h[39], h[56] = 0xff, 1 }),
		"badsh*": "#!/no/such/sh\n", "noname*": "#! \n", "crlf*": "#!/bin/sh\r\n",
		"envcrlf*": "#!/usr/bin/env python3\r\n", "envgone*": "#!/usr/bin/env nopython\n",
		"envargs*": "#!/usr/bin/env sh -e\n", "envempty*": "#!/usr/bin/env brokencmd\n", "toolong*": "#!" + long + "\n",
		"shdir*": "#!/bin\n", "viadata*": "#!./notes.txt\n", "self*": "#!./self\n",
		"data/x.csv": "", "pydir/__main__.py": "", "golib/a.go": "package lib\n", "gotest/a_test.go": "package main\n",
		"file/x": "", "venv/bin/python": "->/no/base/python3", "nopy/bin/python": "x",
		"bin/python3*": binaryHead(nil), "bin/brokencmd*": "", "bin/nccl-test*": sh, "bin/locked": sh, "bin/env*": sh,
	})
	require.NoError(t, unix.Mkfifo(dir+"/fifo", 0o755))
	testCommands(t, "refuse.txtar", dir, dir+"/bin", "$ARCH", runtime.GOARCH, "$LONG", strings.Repeat("a", 300))
}

func TestRefuseWithoutPermission(t *testing.T) {
	dir := folder(t, map[string]string{
		"closed/trainer*": binaryHead(nil), "mine*": "#!/bin/sh\n", "secret.py": "",
		"work/x": "",
	})
	require.NoError(t, os.Chmod(dir+"/mine", 0o700))
	require.NoError(t, os.Chmod(dir+"/secret.py", 0o600))
	require.NoError(t, os.Chmod(dir+"/closed", 0o600))
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o700) })
	if os.Geteuid() != 0 { // then the owner is the other user
		require.NoError(t, os.Chmod(dir+"/mine", 0o070))
		require.NoError(t, os.Chmod(dir+"/secret.py", 0o060))
	}
	for name, want := range map[string]string{
		"closed/trainer": "permission denied: the directory " + dir + "/closed is not accessible to this user",
		"mine":           "permission denied: this user may not execute it",
		"secret.py":      "permission denied: Python could not read it",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unprivileged(t, dir, spec.Command{Name: dir + "/" + name})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, dir+"/"+name+": "+want, e.Error())
			require.Equal(t, 126, e.Code)
		})
	}
	_, err := unprivileged(t, dir, spec.Command{Name: "x", Dir: dir + "/closed/work"})
	require.EqualError(t, err, "x: the working directory "+dir+"/closed/work: permission denied: the directory "+dir+
		"/closed is not accessible to this user")
}

func TestRefuseInRemovedDirectory(t *testing.T) {
	dir := t.TempDir() + "/gone"
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Chdir(dir)
	require.NoError(t, os.Remove(dir))
	_, err := Resolve(spec.Command{Name: "./trainer"}, noEnvironment)
	require.EqualError(t, err, "./trainer: not found: the working directory was removed")
	_, err = Resolve(spec.Command{Name: "sh"}, noEnvironment)
	require.NoError(t, err, "what is not in it runs all the same")
}

// What is refused here is refused by the kernel, with the error that the code is for.
func TestKernelAgrees(t *testing.T) {
	dir := folder(t, map[string]string{
		"empty*": "", "text*": "echo\n", "noise*": "\x00\x01", "cut*": "\x7fELF\x02\x01\x01",
		"musl*":  withLoader("/lib/ld-musl-of-no-machine.so.1"),
		"badsh*": "#!/no/such/sh\n", "noname*": "#! \n", "crlf*": "#!/bin/sh\r\n", "shdir*": "#!/bin\n",
		"norun": "#!/bin/sh\n", "dangling": "->nowhere",
		"foreign*": binaryHead(func(h []byte) {
			binary.LittleEndian.PutUint16(h[18:], 243)
		}), "toolong*": "#!" + strings.Repeat("/long", 60) + "\n",
		"self*": "#!self\n", "segments*": binaryHead(func(h []byte) { h[32], h[56] = 0xff, 3 }),
	})
	t.Chdir(dir)
	names, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range names {
		t.Run(entry.Name(), func(t *testing.T) {
			_, err := Resolve(spec.Command{Name: "./" + entry.Name(), Start: spec.StartExec}, noEnvironment)
			var e *Error
			require.ErrorAs(t, err, &e)
			_, err = syscall.ForkExec("./"+entry.Name(), []string{entry.Name()}, &syscall.ProcAttr{})
			require.Error(t, err)
			require.Equal(t, e.Code == 127, errors.Is(err, syscall.ENOENT), "%v, and the kernel says %v", e, err)
		})
	}
}

func TestKernelRuns(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	require.True(t, kernelRuns(self))
	dir := folder(t, map[string]string{"text*": "echo\n"})
	require.False(t, kernelRuns(dir+"/text"))
}

// A program that the kernel is asked about must not do anything.
func TestKernelRunsNothing(t *testing.T) {
	dir := folder(t, map[string]string{"touch*": "#!/bin/sh\necho ran > \"$0.ran\"\n"})
	require.True(t, kernelRuns(dir+"/touch"))
	require.NoFileExists(t, dir+"/touch.ran")
	var status syscall.WaitStatus
	_, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	require.ErrorIs(t, err, syscall.ECHILD, "it has been waited for")
}

func TestWord(t *testing.T) {
	for name, want := range map[string]string{
		"./a-b_c.py": "./a-b_c.py", "my prog": "'my prog'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "-x": "./-x",
		"grün":   "'grün'",
		"a\x1bb": `'"a\x1bb"'`,
	} {
		require.Equal(t, want, word(name))
	}
}
