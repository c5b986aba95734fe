package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

var pidLine = regexp.MustCompile(`(?m)^pid (\d+)$`)

// waitingMPI starts a job of two ranks that wait for ever, and returns their processes.
func waitingMPI(t *testing.T, library testneeds.MPI) (r *running, pids []int) {
	t.Helper()
	r = mpiJob(library, "-n", "2", "--label=never", "--grace", "1", compiled(t, library, "ends"), "wait").start(t)
	require.True(t, r.until(t, &r.stdout, "pid ", 2), "stdout: %s\nstderr: %s", &r.stdout, &r.stderr)
	for _, m := range pidLine.FindAllStringSubmatch(r.stdout.String(), -1) {
		pid, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.Len(t, pids, 2)
	return r, pids
}

// sharedFiles are the named shared-memory files that processes have mapped.
func sharedFiles(t *testing.T, pids []int) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	for _, pid := range pids {
		maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
		require.NoError(t, err)
		for line := range strings.Lines(string(maps)) {
			_, file, is := strings.Cut(strings.TrimSpace(line), " /dev/shm/")
			if is && !strings.HasSuffix(file, " (deleted)") {
				files["/dev/shm/"+file] = true
			}
		}
	}
	return files
}

// Shared-memory files of ranks disappear with the job, however it ends; those of another job stay.
func TestMPILeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, r *running, ranks []int){
		"rank killed": func(t *testing.T, _ *running, ranks []int) {
			require.NoError(t, syscall.Kill(ranks[1], syscall.SIGKILL))
		},
		"ranks killed": func(_ *testing.T, _ *running, ranks []int) { killAll(ranks) },
		"launcher ended": func(t *testing.T, r *running, _ []int) {
			require.NoError(t, r.command.Process.Signal(syscall.SIGTERM))
		},
		"launcher killed": func(t *testing.T, r *running, _ []int) { require.NoError(t, r.command.Process.Kill()) },
	}
	eachMPI(t, mpiCompilers, func(t *testing.T, library testneeds.MPI) {
		other, others := waitingMPI(t, library)
		stay := sharedFiles(t, others)
		for name, end := range ends {
			r, ranks := waitingMPI(t, library)
			files := sharedFiles(t, ranks)
			require.Equal(t, len(files) > 0, library.Layer != testneeds.LayerMPICH, "MPICH 4.0 alone needs none: %s", files)
			end(t, r, ranks)
			r.wait(t)
			for file := range files {
				require.NotContains(t, stay, file)
				gone := func() bool { _, err := os.Lstat(file); return os.IsNotExist(err) }
				require.Eventually(t, gone, leaving, 10*time.Millisecond, "%s: %s", name, file)
			}
			for file := range stay {
				require.FileExists(t, file, name)
			}
		}
		require.NoError(t, other.command.Process.Signal(syscall.SIGTERM))
		other.wait(t)
	})
}

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // gorun ends the other ranks after the first exits
	}
}
