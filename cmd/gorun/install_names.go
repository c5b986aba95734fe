package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
)

// namesRequest is the request of gorun install-names.
type namesRequest struct {
	*commandLine
	torchrun, mpirun, replace, remove bool
}

func namesCommand(c *commandLine) *command {
	r := &namesRequest{commandLine: c}
	return &command{
		request: r,
		Command: cli.Command{
			Usage: "have torchrun or mpirun start gorun",
			Description: "gorun install-names makes links beside the gorun that you call: under the names torchrun, mpirun " +
				"and mpiexec, gorun takes the options of those. Before pip uninstalls gorun, call it with --remove.",
			UsageText: "gorun install-names --torchrun|--mpirun|--remove",
			Flags: c.Flags(c.group(dialect.GroupShown, option{
				Names: "torchrun", Set: dialect.Switch(&r.torchrun), Help: "link torchrun",
			}, option{
				Names: "mpirun", Set: dialect.Switch(&r.mpirun), Help: "link mpirun and mpiexec",
			}, option{
				Names: "replace", Set: dialect.Switch(&r.replace),
				Help: "keep other programs there as torchrun.orig and so on",
			}, option{
				Names: "remove", Set: dialect.Switch(&r.remove),
				Help: "remove the links, and bring kept programs back",
			})...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun install-names --torchrun --replace", "torchrun is gorun in this virtual environment"},
				{"gorun install-names --remove", "as before"},
			},
			Codes: []dialect.Example{
				{"0", "the links are there, or gone"},
				{"2", "a mistake on the command line"},
				{"125", "a program of that name is there, or a link could not be made"},
			},
		},
	}
}

func (r *namesRequest) check(words []string) {
	r.refuseArguments("install-names", words)
	switch wanted := r.torchrun || r.mpirun; {
	case !wanted && !r.remove:
		r.refuse("gorun install-names: which? `gorun install-names --torchrun`, or --mpirun, or --remove")
	case r.remove && (wanted || r.replace):
		r.refuse("--remove removes the links of all names: use it alone")
	}
}

func (r *namesRequest) run() error {
	own, err := exec.LookPath(os.Args[0])
	if err == nil {
		own, err = filepath.Abs(own)
	}
	if err != nil {
		return err
	}
	var all *multierror.Error
	for _, n := range []struct {
		name   string
		wanted bool
	}{{"torchrun", r.torchrun}, {"mpirun", r.mpirun}, {"mpiexec", r.mpirun}} {
		link := nameLink{filepath.Join(filepath.Dir(own), n.name), filepath.Base(own)}
		var done string
		switch {
		case r.remove:
			done, err = link.remove()
		case n.wanted:
			done, err = link.make(r.replace)
		default:
			continue
		}
		if err == nil && done != "" {
			err = r.print(done + "\n")
		}
		all = multierror.Append(all, err)
	}
	return all.ErrorOrNil()
}

// nameLink is a link to gorun beside it.
type nameLink struct{ path, target string }

// kept is where another program of the name is kept.
func (l nameLink) kept() string { return l.path + ".orig" }

func (l nameLink) exists() bool {
	target, err := os.Readlink(l.path)
	return err == nil && target == l.target
}

// make makes the link and returns what it did.
func (l nameLink) make(replace bool) (string, error) {
	there, _ := filepath.EvalSymlinks(l.path) // an alternative of Debian's package is not ours, but starts gorun
	if l.exists() || filepath.Base(there) == l.target {
		return l.path + " starts gorun already", nil
	}
	err := os.Symlink(l.target, l.path)
	switch {
	case err == nil:
		return l.path + " starts gorun", nil
	case !errors.Is(err, fs.ErrExist):
		return "", err
	case !replace:
		return "", fmt.Errorf("%s is another program: add --replace to keep it as %s", l.path, filepath.Base(l.kept()))
	}
	if _, err := os.Lstat(l.kept()); err == nil {
		return "", fmt.Errorf("%s is there already: move it away", l.kept())
	}
	if err := os.Rename(l.path, l.kept()); err != nil {
		return "", err
	}
	if err := os.Symlink(l.target, l.path); err != nil {
		return "", errors.Join(err, os.Rename(l.kept(), l.path))
	}
	return fmt.Sprintf("%s starts gorun; the program that was there is %s", l.path, l.kept()), nil
}

// remove undoes make.
func (l nameLink) remove() (string, error) {
	if !l.exists() {
		return "", nil
	}
	if err := os.Remove(l.path); err != nil {
		return "", err
	}
	switch err := os.Rename(l.kept(), l.path); {
	case err == nil:
		return l.path + " is the program that was there before", nil
	case errors.Is(err, fs.ErrNotExist):
		return l.path + " is gone", nil
	default:
		return "", err
	}
}
