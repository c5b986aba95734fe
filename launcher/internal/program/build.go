package program

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// GoBuild is a Go program that has to be built before it can run.
type GoBuild struct {
	// Name is what the program is called: of the first file, or of the directory.
	Name string

	program string   // as it was typed
	tool    string   // the go command
	dir     string   // where it runs
	targets []string // what it builds
}

// drainTime is how long Run waits for the rest of the compiler's words once go has
// ended: something that go left behind may hold the pipe open.
const drainTime = 500 * time.Millisecond

// Run builds the program into outFile, which must be an absolute path, by the go
// command with the environment env. What go and the compiler say goes to stderr as
// they say it. Ending ctx ends the build with everything that it started.
//
// A program that does not compile is an [*Error] with code 126: it is there and
// cannot be executed.
func (b *GoBuild) Run(ctx context.Context, outFile string, env []string, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, b.tool, append([]string{"build", "-o", outFile, "--"}, b.targets...)...)
	cmd.Dir, cmd.Env = b.dir, env
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the compilers that go starts have to end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainTime
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return refused(b.program, "could not be built: "+b.command()+": "+err.Error())
	}
	return b.check(outFile)
}

// check looks at what was built: go writes an archive for a package that is no
// program, and a foreign binary where GOOS or GOARCH say so.
func (b *GoBuild) check(outFile string) error {
	w := Wish{Name: b.program}
	f := file{exec: outFile, open: outFile}
	if err := f.stat(); err != nil || !f.hasRunBit() {
		return refused(b.program, b.command()+" has built no program")
	}
	if err := w.runnable(b.program, f); err != nil {
		return err
	}
	return nil
}

// command is what was run, as a message shows it.
func (b *GoBuild) command() string {
	return visible("go build " + strings.Join(b.targets, " "))
}
