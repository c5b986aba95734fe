// Package worker queries NVIDIA's library in a separate process. If the library hangs with its driver
// or crashes its process, the job continues with a note. A program built without cgo cannot load the
// library, but can use the worker.
//
//	querying process                    worker: gorun-gpu nvml-facts VERSION
//	     | -- fork, exec ------------------> |
//	     |                                   | if VERSION is not its own: returns only its version
//	     |                                   | else loads libnvidia-ml.so.1 and queries it
//	     | <-- one JSON object on stdout --- | {"format":1,"version":"v1.2","facts":{...}}
//
// The worker ends with the thread that started it. The querying process kills it after a timeout.
package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gorun/placement/gpufacts"
)

// Name is the worker program if the current program was built without cgo. It is gorun built with cgo.
const Name = "gorun-gpu"

// Verb is the subcommand that runs the worker. The requested version follows it.
const Verb = "nvml-facts"

// Itself, as Program.Path, is the executable of the querying process, even if its file was replaced
// meanwhile.
const Itself = "/proc/self/exe"

// format is the version of the answer's format.
const format = 1

// Program selects the worker program.
type Program struct {
	// Path is the executable. If it is "", Name is looked up beside the executable Beside, then in PATH.
	Path string
	// Beside is an executable. "" means that of this process.
	Beside string
	// Version is the required version. "" means any version with the same answer format.
	Version string
	// Child, if not nil, returns what starts and awaits the worker, in a process that reaps children of others.
	Child func(worker *exec.Cmd) Child
	// Slow, if not nil, is called on a separate goroutine if an answer takes so long that the user needs a
	// message.
	Slow func()
}

// Child starts and awaits a program.
type Child interface {
	Start() error
	Wait() error
}

// SlowText is the message for Slow.
const SlowText = "waiting for NVIDIA's driver: with persistence mode off, it initializes GPUs one by one for each " +
	"process (`sudo nvidia-smi -pm 1` turns it on)"

// slow is the delay before the call of Slow.
const slow = 2 * time.Second

// answer is the output of the worker.
type answer struct {
	Format  int             `json:"format"`
	Version string          `json:"version"`
	Facts   *gpufacts.Facts `json:"facts,omitempty"` // nil: a different version was requested
}

// Answer runs the worker and writes the facts that ask returns. It calls ask only if the requested
// version is that of this program or "" (any).
func Answer(stdout io.Writer, wanted, version string, ask func() gpufacts.Facts) error {
	said := answer{Format: format, Version: version}
	if wanted == "" || wanted == version {
		facts := ask()
		said.Facts = &facts
	}
	if err := json.NewEncoder(stdout).Encode(said); err != nil {
		return fmt.Errorf("write the answer of NVIDIA's library: %w", err)
	}
	return nil
}

// Patience returns the timeout for an answer about a number of GPUs. 0 means unknown, and gets the
// timeout of a large server.
//
// If no process holds the driver open and persistence mode is off, the driver initializes the GPUs one
// by one. Each takes one to three seconds. A driver that exceeds this timeout is not going to answer.
func Patience(gpus int) time.Duration {
	const large = 8
	if gpus == 0 {
		gpus = large
	}
	return 10*time.Second + time.Duration(gpus)*5*time.Second
}

// Facts queries all facts, with a timeout for the number of GPUs.
func (p Program) Facts(gpus int) (gpufacts.Facts, error) {
	if p.Slow != nil {
		defer time.AfterFunc(slow, p.Slow).Stop()
	}
	return p.within(deadline(Patience(gpus)))
}

// FactsWithin queries all facts, with the caller's timeout.
func (p Program) FactsWithin(limit time.Duration) (gpufacts.Facts, error) {
	return p.within(deadline(limit))
}

// within queries facts until giveUp fires. giveUp sends the reason.
func (p Program) within(giveUp <-chan error) (gpufacts.Facts, error) {
	path, err := p.Find()
	if err != nil {
		return gpufacts.Facts{}, fmt.Errorf("gorun did not query NVIDIA's library (%w)", err)
	}
	text, err := p.run(path, giveUp)
	if err != nil {
		return gpufacts.Facts{}, fmt.Errorf("NVIDIA's library did not answer (%s: %w)", shown(path), err)
	}
	facts, err := p.read(text)
	if err != nil {
		return gpufacts.Facts{}, fmt.Errorf("gorun did not query NVIDIA's library (%s: %w)", shown(path), err)
	}
	return facts, nil
}

// shown returns the name of a program in messages.
func shown(path string) string {
	if path == Itself {
		return "gorun " + Verb
	}
	return path
}

// Find returns the worker's executable.
func (p Program) Find() (string, error) {
	if p.Path != "" {
		return p.Path, nil
	}
	own := p.Beside
	if own == "" {
		var err error
		if own, err = os.Executable(); err != nil {
			return "", err
		}
	}
	dir := filepath.Dir(own)
	path, err := exec.LookPath(filepath.Join(dir, Name))
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return path, err
	}
	if path, err = exec.LookPath(Name); err != nil {
		return "", fmt.Errorf("%s is not in %s or PATH", Name, dir)
	}
	return path, nil
}

// read parses an answer.
func (p Program) read(text []byte) (gpufacts.Facts, error) {
	var said answer
	switch err := json.Unmarshal(text, &said); {
	case err != nil || said.Format == 0:
		return gpufacts.Facts{}, fmt.Errorf("answered %q", beginning(text))
	case p.Version != "" && said.Version != p.Version:
		return gpufacts.Facts{}, fmt.Errorf("version %s, gorun is %s: install both together", said.Version, p.Version)
	case said.Format != format:
		return gpufacts.Facts{}, fmt.Errorf("version %s answers in format %d, gorun expects format %d", said.Version,
			said.Format, format)
	case said.Facts == nil:
		return gpufacts.Facts{}, fmt.Errorf("answered %q", beginning(text))
	}
	return *said.Facts, nil
}

// beginning shortens a text for a message.
func beginning(text []byte) []byte {
	const enough = 80
	return text[:min(len(text), enough)]
}
