package faults

import (
	"os"
	"path/filepath"
	"syscall"
)

// listedFaults kill a launcher whose job is visible to other commands.
func listedFaults() []fault {
	listed := func(s *scene) {
		dir := s.path("runtime")
		s.require(os.Mkdir(dir, 0o700) == nil, "no runtime directory")
		s.launch(work{ranks: 2, program: role("rank", "default", "none"), environ: []string{"XDG_RUNTIME_DIR=" + dir}})
		s.await("rank", 2)
		s.until("a socket", func() bool {
			found, _ := filepath.Glob(filepath.Join(dir, "gorun-job-*", "socket"))
			return len(found) == 1
		})
	}
	unlisted := func(s *scene, _ outcome) {
		s.until("an empty runtime directory", func() bool {
			left, err := os.ReadDir(s.path("runtime"))
			return err == nil && len(left) == 0
		})
	}
	return []fault{
		{
			name: "launcher of a listed job SIGKILL", own: true, criterion: "exit code 137; the job's socket is gone with it",
			act: func(s *scene) {
				listed(s)
				s.signal(s.command.Process.Pid, syscall.SIGKILL)
			}, check: together(ends(137), unlisted),
		},
		{
			name: "launcher of a listed job SIGTERM", own: true, criterion: "exit code 143; the job's socket is gone with it",
			act: func(s *scene) {
				listed(s)
				s.signal(s.command.Process.Pid, syscall.SIGTERM)
			}, check: together(ends(143), unlisted),
		},
	}
}
