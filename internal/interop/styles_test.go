package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// showArguments is a Python program without PyTorch that prints its rank and its arguments.
const showArguments = `import os, sys
print(os.environ["RANK"], __name__, os.path.basename(sys.argv[0]), *sys.argv[1:])
`

// pythonFolder makes a new folder with the package of a module "pkg.main", and the same text as a script.
func pythonFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "pkg"), 0o755))
	for _, name := range []string{"pkg/main.py", "script.py"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(showArguments), 0o644))
	}
	return dir
}

// Each common way to start a Python program, with two ranks.
func TestWaysToStartPython(t *testing.T) {
	python := testneeds.Program(t, testneeds.LayerPython, "python3")
	dir := pythonFolder(t)
	for name, row := range map[string]struct {
		program string // name of the gorun program
		args    string
		want    string // of each rank, after its number
	}{
		"script":                 {"gorun", "-n 2 script.py --x 1", "__main__ script.py --x 1"},
		"module":                 {"gorun", "-n 2 -m pkg.main --x 1", "__main__ main.py --x 1"},
		"interpreter as program": {"gorun", "-n 2 " + python + " script.py -n 7", "__main__ script.py -n 7"},
		"torchrun":               {"torchrun", "--nproc_per_node=2 script.py --x 1", "__main__ script.py --x 1"},
		"torchrun, standalone":   {"torchrun", "--standalone --nproc-per-node=2 script.py", "__main__ script.py"},
		"torchrun, static": {
			"torchrun",
			"--nproc_per_node=2 --nnodes=1 --rdzv_backend=static --master_addr=localhost --master_port=0 script.py",
			"__main__ script.py",
		},
		"torchrun, module": {"torchrun", "--nproc-per-node 2 -m pkg.main", "__main__ main.py"},
		"torchrun, local rank in text": {
			"torchrun", "--nproc-per-node 2 script.py r${local_rank}", "__main__ script.py r@",
		},
		"torch.distributed.launch": {
			"gorun", "launch --nproc_per_node 2 script.py --x", "__main__ script.py --local-rank=@ --x",
		},
		"torch.distributed.launch, clean": {
			"gorun", "launch --use-env --nproc_per_node 2 script.py --x", "__main__ script.py --x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := job{argv: append([]string{built(row.program)}, strings.Fields(row.args)...), dir: dir}
			lines := strings.Split(strings.TrimSpace(j.with("GORUN_PYTHON="+python).succeed(t)), "\n")
			slices.Sort(lines)
			require.Equal(t, []string{
				"0 " + strings.ReplaceAll(row.want, "@", "0"),
				"1 " + strings.ReplaceAll(row.want, "@", "1"),
			}, lines)
		})
	}
}
