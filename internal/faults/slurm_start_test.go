package faults

import (
	"os"
	"path/filepath"
	"strings"
)

// slurmStartFaults are about what is not there.
func slurmStartFaults() []slurmFault {
	return []slurmFault{
		{
			name: "a program that is missing", criterion: "exit code 127, named", act: func(s *slurmScene) {
				s.form(inAllocation, []string{s.path("no-such-program")})
			}, check: saysInSlurm(127, "no-such-program"),
		},
		{
			name: "a program that is missing, one gorun per rank", criterion: "exit code 127, named", act: func(s *slurmScene) {
				s.form(gorunEveryRank, []string{s.path("no-such-program")})
			}, check: saysInSlurm(127, "no-such-program"),
		},
		{
			name: "a program that is missing, one gorun per node", criterion: "exit code 127, named", act: func(s *slurmScene) {
				s.form(gorunEveryNode, []string{s.path("no-such-program")})
			}, check: saysInSlurm(127, "no-such-program"),
		},
		{
			name: "a program that is not executable", criterion: "exit code 126, named", act: func(s *slurmScene) {
				err := os.WriteFile(s.path("not-executable"), []byte("text"), 0o644)
				s.require(err == nil, "%v", err)
				s.form(inScript, []string{s.path("not-executable")})
			}, check: saysInSlurm(126, "not-executable"),
		},
		{
			name: "a working directory that is removed", criterion: "it is said", act: func(s *slurmScene) {
				s.batch("mkdir $TMPDIR/gone; cd $TMPDIR/gone; rmdir $TMPDIR/gone\nexec "+shellLine(s.launcher.command(0, nil, role("print")))+"\n", "-N2", "--ntasks-per-node=2")
			}, check: func(s *slurmScene, got outcome) {
				s.require(got.code != 0 && strings.Contains(got.stderr, "directory"), "code %d: %s", got.code, s.said())
			},
		},
		{
			name: "a working directory that the node lacks", criterion: "Slurm takes another, and the job runs", act: func(s *slurmScene) {
				s.batch("exec "+shellLine(s.launcher.command(0, nil, role("print")))+"\n", "-N2", "--ntasks-per-node=2", "--chdir="+s.path("no-such-folder"))
			}, check: saysInSlurm(0),
		},
		{
			name: "no srun in PATH", criterion: "it is said, and nothing hangs", act: func(s *slurmScene) {
				s.start(work{around: append(s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"), "env", "PATH=/nowhere"), program: role("print")})
			}, check: func(s *slurmScene, got outcome) {
				s.require(got.code != 0 && strings.Contains(got.stderr, "srun"), "code %d: %s", got.code, s.said())
			},
		},
		{
			name: "srun is removed while gorun has it in PATH", criterion: "srun's failure is said", act: func(s *slurmScene) {
				err := os.Mkdir(s.path("bin"), 0o755)
				s.require(err == nil, "%v", err)
				err = os.WriteFile(filepath.Join(s.path("bin"), "srun"), []byte("#!/no/such/shell\n"), 0o755)
				s.require(err == nil, "%v", err)
				s.start(work{around: append(s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"), "env", "PATH="+s.path("bin")+":"+os.Getenv("PATH")), program: role("print")})
			}, check: saysInSlurm(125, "srun"),
		},
		{
			name: "gorun is not on the nodes", criterion: "srun brings it; nothing of it is left", act: func(s *slurmScene) {
				s.launcher.argv[0] = s.path("own") + "/gorun"
				hide := `mkdir "$0" && mount -t tmpfs own "$0" && cp "$1" "$0"/gorun && shift && exec "$@"`
				around := append([]string{"unshare", "--mount", "/bin/sh", "-c", hide, s.path("own"), built("gorun")}, "salloc", "-Q", "-N2", "--ntasks-per-node=2")
				s.start(work{around: around, options: []string{"-v"}, program: role("print")})
			}, check: func(s *slurmScene, got outcome) {
				saysInSlurm(0, "asked to copy it")(s, got)
				for _, place := range []string{"/tmp/gorun-*", s.c.Dir() + "/tmp/*/gorun-*"} {
					left, _ := filepath.Glob(place)
					for _, file := range left {
						info, err := os.Stat(file)
						s.require(err != nil || info.IsDir() || strings.HasSuffix(file, ".go"), "left: %s", file)
					}
				}
			},
		},
	}
}
