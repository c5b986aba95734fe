// Package worker has NVIDIA's library asked in a process of its own. A library
// that hangs with its driver, or takes its process along when it crashes, then
// costs a remark and not the job; and a program that is built without cgo, which
// cannot load a library, gets its answers all the same.
//
//	asking process                      worker: gorun-gpu nvml-facts VERSION
//	     | -- fork, exec ------------------> |
//	     |                                   | VERSION is not its own: only says which it is
//	     |                                   | else loads libnvidia-ml.so.1 and asks it
//	     | <-- one JSON object on stdout --- | {"format":1,"version":"v1.2","facts":{...}}
//
// The worker ends with the thread that started it, and is killed when the asking
// process has waited long enough.
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

// Name is the program that is asked where the own one was built without cgo: gorun
// built with cgo.
const Name = "gorun-gpu"

// Verb is the word that makes a program the worker, before the wished version.
const Verb = "nvml-facts"

// Itself is, as Program.Path, the executable of the asking process, even if its
// file was replaced meanwhile.
const Itself = "/proc/self/exe"

// format is the version of the answer's form.
const format = 1

// Program says which program is the worker.
type Program struct {
	// Path is its executable; "": Name beside the executable Beside, else in PATH.
	Path string
	// Beside is that executable; "" is this process's own.
	Beside string
	// Version is the one that it must have; "" is any with the same form of answers.
	Version string
	// Slow is called, on a goroutine of its own, when an answer takes so long that
	// somebody should be told why nothing happens; nil: nobody.
	Slow func()
}

// SlowText is what there is to say then.
const SlowText = "waiting for NVIDIA's driver: with its persistence mode off it initialises one GPU after the other " +
	"for whoever asks"

// slow is after how long.
const slow = 2 * time.Second

// answer is what the worker prints.
type answer struct {
	Format  int             `json:"format"`
	Version string          `json:"version"`
	Facts   *gpufacts.Facts `json:"facts,omitempty"` // nil: another version was wished
}

// Answer is the worker: it writes what ask learned, which is called only if the
// wished version ("" is any) is this program's.
func Answer(stdout io.Writer, wished, version string, ask func() gpufacts.Facts) error {
	said := answer{Format: format, Version: version}
	if wished == "" || wished == version {
		facts := ask()
		said.Facts = &facts
	}
	if err := json.NewEncoder(stdout).Encode(said); err != nil {
		return fmt.Errorf("write what NVIDIA's library told: %w", err)
	}
	return nil
}

// Patience is how long an answer about a number of GPUs may take. Where no
// process holds the driver open and its persistence mode is off, it initialises
// one GPU after the other for whoever asks, each for one to three seconds; a
// driver that needs longer than this is not going to answer. A number of 0 is not
// known, and may be that of a large server.
func Patience(gpus int) time.Duration {
	const large = 8
	if gpus == 0 {
		gpus = large
	}
	return 10*time.Second + time.Duration(gpus)*5*time.Second
}

// Facts asks for everything, for as long as a number of GPUs is worth.
func (p Program) Facts(gpus int) (gpufacts.Facts, error) {
	if p.Slow != nil {
		defer time.AfterFunc(slow, p.Slow).Stop()
	}
	return p.within(deadline(Patience(gpus)))
}

// FactsWithin asks for everything, for as long as whoever asks can wait.
func (p Program) FactsWithin(limit time.Duration) (gpufacts.Facts, error) {
	return p.within(deadline(limit))
}

// within asks until give up fires, which sends the reason.
func (p Program) within(giveUp <-chan error) (gpufacts.Facts, error) {
	path, err := p.Find()
	if err != nil {
		return gpufacts.Facts{}, fmt.Errorf("NVIDIA's library was not asked (%w)", err)
	}
	text, err := run(path, p.Version, giveUp)
	if err != nil {
		return gpufacts.Facts{}, fmt.Errorf("NVIDIA's library was asked in vain (%s: %w)", shown(path), err)
	}
	facts, err := p.read(text)
	if err != nil {
		return gpufacts.Facts{}, fmt.Errorf("NVIDIA's library was not asked (%s: %w)", shown(path), err)
	}
	return facts, nil
}

// shown is what messages call a program.
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
		return "", fmt.Errorf("%s is neither in %s nor in PATH", Name, dir)
	}
	return path, nil
}

// read understands an answer.
func (p Program) read(text []byte) (gpufacts.Facts, error) {
	var said answer
	switch err := json.Unmarshal(text, &said); {
	case err != nil || said.Format == 0:
		return gpufacts.Facts{}, fmt.Errorf("answered %q", beginning(text))
	case p.Version != "" && said.Version != p.Version:
		return gpufacts.Facts{}, fmt.Errorf("version %s, gorun is %s: install both together", said.Version, p.Version)
	case said.Format != format:
		return gpufacts.Facts{}, fmt.Errorf("version %s answers in form %d, form %d is understood here", said.Version,
			said.Format, format)
	case said.Facts == nil:
		return gpufacts.Facts{}, fmt.Errorf("answered %q", beginning(text))
	}
	return *said.Facts, nil
}

// beginning is enough of a text for a message.
func beginning(text []byte) []byte {
	const enough = 80
	return text[:min(len(text), enough)]
}
