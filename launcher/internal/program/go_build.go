package program

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/spec"
)

// GoBuild is a Go program that must be built before it can run.
type GoBuild struct {
	// Name is the program's name, from the first file or the directory.
	Name string

	program string   // as on the command line
	tool    string   // path of the go command
	dir     string   // working directory of the go command
	targets []string // its arguments
}

// outputDelay limits the wait for more output once go has ended: another process may hold the pipe open.
const outputDelay = 500 * time.Millisecond

// Run builds the program into outFile, an absolute path, with the environment env. The output of go and the compiler
// goes to stderr immediately. When ctx ends, Run kills the build with all its processes.
//
// If the program does not compile, the error is an [*Error] with code 126.
func (b *GoBuild) Run(ctx context.Context, outFile string, env []string, stderr io.Writer) error {
	cmd := child.CommandContext(ctx, b.tool, append([]string{"build", "-o", outFile, "--"}, b.targets...)...)
	cmd.Dir, cmd.Env = b.dir, env
	output := &goOutput{to: stderr}
	cmd.Stdout, cmd.Stderr = output, output
	// The build has its own session, like ranks. The compilers must end with go, and the cleanup of a job kills all
	// sessions that contain a process of the job.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputDelay
	err := cmd.Run()
	output.flush()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		failed := refused(b.program, "cannot build: "+b.command()+": "+err.Error())
		if output.noCache {
			failed.Hint = "name a directory for Go's build cache: `export GOCACHE=DIR`"
		}
		return failed
	}
	return b.check(outFile)
}

// check checks the output: go writes an archive for a package other than main, and a foreign binary if GOOS or GOARCH
// are set.
func (b *GoBuild) check(outFile string) error {
	f := file{exec: outFile, open: outFile}
	if err := f.stat(); err != nil || !f.hasRunBit() {
		return refused(b.program, "go build made no program of it")
	}
	if err := (&request{Command: spec.Command{Name: b.program}}).checkExecutable(b.program, f, 0); err != nil {
		return err
	}
	return nil
}

// command returns a command line for the launcher's directory that fails like the build and leaves no file.
func (b *GoBuild) command() string {
	words := []string{"go", "build"}
	if b.dir != "." {
		words = append(words, "-C", word(b.dir))
	}
	words = append(words, "-o", "/dev/null")
	for _, target := range b.targets {
		words = append(words, word(target))
	}
	return strings.Join(words, " ")
}

// goOutput forwards the output of go and the compiler by lines, without the go command's own prefix.
type goOutput struct {
	to      io.Writer
	partial []byte // an incomplete line
	noCache bool   // go found no directory for its build cache
}

// Write never fails: the build continues even if its output has no reader.
func (o *goOutput) Write(p []byte) (int, error) {
	o.partial = append(o.partial, p...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		o.forward(o.partial[:len(line)+1])
		o.partial = rest
	}
}

// flush forwards an incomplete last line.
func (o *goOutput) flush() {
	if len(o.partial) > 0 {
		o.forward(o.partial)
		o.partial = nil
	}
}

func (o *goOutput) forward(line []byte) {
	line = bytes.TrimPrefix(line, []byte("go: "))
	if bytes.HasPrefix(line, []byte("build cache is ")) ||
		bytes.HasPrefix(line, []byte("failed to initialize build cache ")) {
		o.noCache = true
	}
	_, _ = o.to.Write(line)
}
