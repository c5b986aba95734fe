package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// run becomes sbatch, which reads the script from its standard input: signals, output and exit code are sbatch's
// own. It returns where that cannot be.
func (o *sbatchOptions) run() error {
	gorun, err := os.Executable()
	if err != nil {
		return err
	}
	if path := filepath.Join(o.dir, o.program); isBatchScript(path) || isBatchScript(o.program) {
		return failure{job.ExitUsage, fmt.Sprintf("%s is a batch script: it has #SBATCH lines. Submit it as it is, "+
			"sbatch %s; gorun belongs into it, before the program that the ranks run",
			o.program, shellwords.Quote(o.program))}
	}
	if !o.Quiet && o.isElsewhere() {
		o.say(fmt.Sprintf("%s is here, and not in %s, where --chdir has the job begin and look for it: write its "+
			"absolute path, or --wdir %[2]s, which is the ranks' directory alone",
			o.program, o.dir))
	}
	text, certain := o.missingProgram()
	if text != "" && (certain || !o.Quiet) {
		o.say(text)
	}
	if certain && !o.DryRun {
		return exitWith(job.ExitNotFound)
	}
	script := o.script(gorun)
	if o.DryRun {
		return o.write(script)
	}
	return o.becomeSbatch(script)
}

// isElsewhere reports whether the program is a file here, and none where Slurm starts the job.
func (o *sbatchOptions) isElsewhere() bool {
	isFile := strings.Contains(o.program, "/") || filepath.Ext(o.program) == ".py"
	if o.dir == "" || !isFile || filepath.IsAbs(o.program) {
		return false
	}
	_, here := os.Stat(o.program)
	_, there := os.Stat(filepath.Join(o.dir, o.program))
	return here == nil && errors.Is(there, fs.ErrNotExist)
}

// missingProgram says which program is nowhere here, "" for none. The job would not find it either, which is certain of
// all but absolute paths: those the nodes alone may have.
func (o *sbatchOptions) missingProgram() (text string, certain bool) {
	for _, app := range o.Spec.Apps {
		if app.Start == job.StartModule { // Python knows where to look
			continue
		}
		if filepath.IsAbs(app.Program) {
			if _, err := os.Stat(app.Program); errors.Is(err, fs.ErrNotExist) {
				text = app.Program + " is not on this host: the job ends with exit code 127 unless its nodes have it"
			}
			continue
		}
		found := false
		for _, dir := range []string{"", o.dir, o.Spec.Dir, app.Dir} {
			_, err := os.Stat(filepath.Join(dir, app.Program))
			found = found || !errors.Is(err, fs.ErrNotExist)
		}
		if _, err := exec.LookPath(app.Program); !found && err != nil {
			return app.Program +
				": no such program here, nor in PATH; of one that the nodes alone have write the absolute path", true
		}
	}
	return text, false
}

// isBatchScript reports whether a file has lines for sbatch, in the beginning where they count.
func isBatchScript(path string) bool {
	const most = 64 << 10
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return bytes.HasPrefix(text, []byte("#!")) && bytes.Contains(text, []byte("\n#SBATCH "))
}

// becomeSbatch executes sbatch in place of this program. What was typed is on its command line, too, as it is stronger
// there than variables SBATCH_*, which are stronger than the script.
func (o *sbatchOptions) becomeSbatch(script string) error {
	path, err := exec.LookPath("sbatch")
	if err != nil {
		return errors.New("sbatch was not found in PATH, by which jobs are submitted to Slurm: log in where it is " +
			"installed, or see the script by --dry-run")
	}
	if err := readFrom(script); err != nil {
		return fmt.Errorf("hand the script to sbatch: %w", err)
	}
	words := slices.Concat([]string{"sbatch"}, o.asked, o.submission)
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, words, ofNoJob(os.Environ())))
}

// readFrom makes a text what this process reads from its standard input, without a file on any disk.
func readFrom(text string) error {
	fd, err := unix.MemfdCreate("gorun-sbatch", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "script")
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return unix.Dup3(fd, 0, 0)
}

// slurmSettings are Slurm's variables that say how its commands work, and not which job somebody is in.
var slurmSettings = []string{
	"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_DEBUG_FLAGS", "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_JWT",
	"SLURM_TIME_FORMAT", "SLURM_UMASK",
}

// ofNoJob leaves out what tells of the job in which somebody submits another one, as sbatch hands everything on: the
// new job's gorun would take itself for a part of the old one.
func ofNoJob(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		slurms := strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SLURMD_")
		return slurms && !slices.Contains(slurmSettings, name) ||
			slices.Contains([]string{env.VarJob, env.VarJobEngine, env.VarJobKey, env.VarJobStore, env.VarJobWorld}, name)
	})
}
