package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// slurmStartFaults are cases where something is missing.
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
				s.batch("mkdir $TMPDIR/gone; cd $TMPDIR/gone; rmdir $TMPDIR/gone\nexec "+
					shellLine(s.launcher.command(0, nil, role("print")))+"\n", "-N2", "--ntasks-per-node=2")
			}, check: func(s *slurmScene, got outcome) {
				s.require(got.code != 0 && strings.Contains(got.stderr, "directory"), "code %d: %s", got.code, s.said())
			},
		},
		{
			name: "a working directory that the node lacks", criterion: "Slurm takes another, and the job runs",
			act: func(s *slurmScene) {
				s.batch("exec "+shellLine(s.launcher.command(0, nil, role("print")))+"\n", "-N2", "--ntasks-per-node=2",
					"--chdir="+s.path("no-such-folder"))
			}, check: saysInSlurm(0),
		},
		{
			name: "no srun in PATH", criterion: "it is said, and nothing hangs", act: func(s *slurmScene) {
				s.start(work{
					around:  append(s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"), "env", "PATH=/nowhere"),
					program: role("print"),
				})
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
				s.start(work{around: append(s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"), "env", "PATH="+s.path("bin")+
					":"+os.Getenv("PATH")), program: role("print")})
			}, check: saysInSlurm(125, "srun"),
		},
		{
			name: "srun's settings in the environment", criterion: "they are for the user's own steps, and the job runs",
			act: func(s *slurmScene) {
				s.start(work{around: append(s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2", "env"),
					srunSettings(s.dir)...), program: role("print")})
			}, check: func(s *slurmScene, got outcome) {
				saysInSlurm(0)(s, got)
				s.require(strings.Count(got.stdout, " here\n") == 4, "%q", got.stdout)
			},
		},
		{
			name: "scancel while agents are started", criterion: "nothing left, and no wait", act: func(s *slurmScene) {
				s.start(work{
					around:  append(s.watchedSrun(), s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2")...),
					program: role("print"),
				})
				s.reported()
				for _, p := range s.gorun(false) {
					s.job, _ = strconv.Atoi(s.variable(p.pid, "SLURM_JOB_ID"))
				}
				s.at = time.Now()
				s.must("scancel", s.number())
				s.goOn() // srun reports it, salloc does not
			}, check: func(s *slurmScene, got outcome) { s.require(got.code != 0, "exit code 0: %s", s.said()) },
		},
		{
			name: "Ctrl-C while srun waits", criterion: "nothing left", act: func(s *slurmScene) {
				s.start(work{
					around:  append(s.watchedSrun(), s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2")...),
					program: role("print"),
				})
				s.reported()
				s.strike(s.head(), syscall.SIGINT)
			}, check: func(*slurmScene, outcome) {}, // salloc exits with 0 after its command was interrupted
		},
		{
			name: "gorun is not on the nodes", criterion: "srun brings it; nothing of it is left", act: func(s *slurmScene) {
				s.launcher.argv[0] = s.path("own") + "/gorun"
				hide := `mkdir "$0" && mount -t tmpfs own "$0" && cp "$1" "$0"/gorun && printf %s "$0" >>"$0"/gorun && ` +
					`shift && exec "$@"`
				around := append([]string{"unshare", "--mount", "/bin/sh", "-c", hide, s.path("own"), built("gorun")}, "salloc",
					"-Q", "-N2", "--ntasks-per-node=2")
				s.start(work{around: around, options: []string{"-v"}, program: role("print")})
			}, check: func(s *slurmScene, got outcome) {
				saysInSlurm(0, "copies it there")(s, got)
				for _, place := range []string{"/tmp/gorun-*", s.c.Dir() + "/tmp/*/gorun-*"} {
					files, _ := filepath.Glob(place)
					for _, file := range files { // other jobs too: the copies of this job's gorun end with its own path
						text, _ := os.ReadFile(file)
						s.require(!strings.HasSuffix(string(text), s.path("own")), "left: %s", file)
					}
				}
			},
		},
	}
}

// srunSettings are variables that srun reads as options, with values that would break the agents' step.
func srunSettings(dir string) []string {
	return []string{
		"SLURM_STDINMODE=none", "SLURM_STDOUTMODE=none", "SLURM_STDERRMODE=" + dir + "/lost", "SLURM_KILL_BAD_EXIT=1",
		"SLURM_WAIT=1", "SLURM_LABELIO=1",
		"SLURM_UNBUFFEREDIO=1", "SLURM_TIMELIMIT=1", "SLURM_EXCLUSIVE=1", "SLURM_OVERCOMMIT=1",
		"SLURM_MEM_PER_NODE=999999", "SLURM_CPUS_PER_TASK=64", "SLURM_DEBUG=3",
		"SLURM_IMMEDIATE=1", "SLURM_MPI_TYPE=none", "SLURM_GRES=gpu:7", "SLURM_CONSTRAINT=nope",
		"SLURM_QUIT_ON_INTERRUPT=1", "SLURM_EXPORT_ENV=NONE",
		"SLURM_PARTITION=nope", "SLURM_ACCOUNT=nope", "SLURM_RESERVATION=nope", "SLURM_QOS=nope",
		"SLURM_DEPENDENCY=afterok:1", "SLURM_PROLOG=/no/such/prolog",
		"SLURM_EPILOG=/no/such/epilog", "SLURM_NTASKS_PER_CORE=1", "SLURM_THREADS=7", "SLURM_HINT=nomultithread",
		"SLURM_WORKING_DIR=/no/such/folder", "SLURM_REMOTE_CWD=/no/such/folder",
		"SLURM_EXIT_ERROR=77", "SLURM_OPEN_MODE=a", "SLURM_UMASK=0777", "SLURM_CPU_FREQ_REQ=low", "SLURM_JOB_NAME=--evil",
		"SLURM_SRUN_REDUCE_TASK_EXIT_MSG=1", "SLURM_NO_KILL=0",
		"SLURM_MULTI_PROG=1", "SLURM_RESV_PORTS=1", "SLURM_ACCTG_FREQ=1", "SLURM_EXACT=1", "SLURM_SPREAD_JOB=1",
	}
}
