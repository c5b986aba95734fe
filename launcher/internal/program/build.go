package program

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/internal/process/child"
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
	cmd := child.CommandContext(ctx, b.tool, append([]string{"build", "-o", outFile, "--"}, b.targets...)...)
	cmd.Dir, cmd.Env = b.dir, env
	said := &goWords{to: stderr}
	cmd.Stdout, cmd.Stderr = said, said
	// The compilers that go starts have to end with it. A session of its own, as a rank has: what ends a job takes all
	// of a session in which it finds a process of the job, and ours is the user's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainTime
	err := cmd.Run()
	said.end()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		failed := refused(b.program, "could not be built: "+b.command()+": "+err.Error())
		if said.noCache {
			failed.Hint = "name a directory for Go's build cache: GOCACHE=/some/dir gorun ..."
		}
		return failed
	}
	return b.check(outFile)
}

// check looks at what was built: go writes an archive for a package that is no
// program, and a foreign binary where GOOS or GOARCH say so.
func (b *GoBuild) check(outFile string) error {
	w := Request{Name: b.program}
	f := file{exec: outFile, open: outFile}
	if err := f.stat(); err != nil || !f.hasRunBit() {
		return refused(b.program, "go build has made no program of it")
	}
	if err := w.runnable(b.program, f); err != nil {
		return err
	}
	return nil
}

// command is a command line for the launcher's directory that fails as the build
// did and leaves no file behind: what a message may offer for pasting.
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

// goWords passes on what go and the compiler say, in whole lines. The go command's
// own lines begin with its name, which would stand behind the launcher's.
type goWords struct {
	to      io.Writer
	rest    []byte // a line that has not ended yet
	noCache bool   // go found no place for its build cache
}

// Write never fails for want of a reader: the build goes on without one.
func (w *goWords) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		w.line(w.rest[:end+1])
		w.rest = w.rest[end+1:]
	}
}

// end passes on a last line without an end.
func (w *goWords) end() {
	if len(w.rest) > 0 {
		w.line(w.rest)
		w.rest = nil
	}
}

func (w *goWords) line(line []byte) {
	line = bytes.TrimPrefix(line, []byte("go: "))
	if bytes.HasPrefix(line, []byte("build cache is ")) ||
		bytes.HasPrefix(line, []byte("failed to initialize build cache ")) {
		w.noCache = true
	}
	_, _ = w.to.Write(line)
}
