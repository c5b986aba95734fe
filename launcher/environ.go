package launcher

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gorun/launcher/internal/agent"
	"gorun/launcher/job"
)

// variables returns those of the named variables that are set, as NAME=VALUE.
func (c *call) variables(names ...string) (environ []string) {
	for _, name := range names {
		if v, ok := lookup(c.spec.Environ, name); ok {
			environ = append(environ, name+"="+v)
		}
	}
	return environ
}

func lookup(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		if n, v, ok := strings.Cut(environ[i], "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}

// tempDir returns the ranks' TMPDIR.
func (c *call) tempDir() string { return agent.TempDir(c.spec.Environ) }

// sharedDir is a directory of the user that all nodes probably see.
func (c *call) sharedDir() string {
	if dir, _ := lookup(c.spec.Environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gorun")
	}
	if home, _ := lookup(c.spec.Environ, "HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "gorun")
	}
	return workingDir()
}

// workingDir returns the working directory as the shell spells it.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return dir
}

// findExecutable finds a program for the guard to run.
func (c *call) findExecutable() error {
	if c.settings.Executable != "" || mainCalled {
		return nil
	}
	path, err := exec.LookPath("gorun")
	if err != nil {
		return &Error{
			Code: job.ExitLauncher, Text: "no program for the job's guard process",
			Hint: "call launcher.Main() first thing in main, set Executable in launcher.Options, or put gorun into PATH",
		}
	}
	c.settings.Executable = path
	return nil
}
