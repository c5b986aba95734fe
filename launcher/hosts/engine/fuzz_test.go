package engine

import (
	"io/fs"
	"strings"
	"testing"
)

// FuzzFind: whatever an engine's variables and files say, the outcome is an error or
// hosts whose names can stand in a command, with numbers that go together.
func FuzzFind(f *testing.F) {
	f.Add("PBS_JOBID=1\nPBS_NODEFILE=/f\nPBS_ENVIRONMENT=PBS_BATCH", "n1\nn2\nn1\n")
	f.Add("LSB_JOBID=1\nLSB_MCPU_HOSTS=a 1 b 4\nCSM_ALLOCATION_ID=2", "")
	f.Add("LSB_JOBID=1\nLSB_MCPU_HOSTS=a 4\nJSM_NAMESPACE_RANK=1\nJSM_NAMESPACE_SIZE=2\nJSM_NAMESPACE_LOCAL_RANK=1\n"+
		"JSM_NAMESPACE_LOCAL_SIZE=2", "")
	f.Add("SGE_ROOT=/s\nJOB_ID=1\nPE_HOSTFILE=/f", "a 2 all.q@a UNDEFINED\n")
	f.Add("FLUX_URI=local\nFLUX_JOB_ID=f\nFLUX_JOB_SIZE=3\nFLUX_JOB_NNODES=2\nFLUX_TASK_RANK=1\nFLUX_TASK_LOCAL_ID=0",
		"[[0,1,1,1],[1,1,2,1]]")
	f.Add("FLUX_URI=local", "n[1-3]")
	f.Add("PALS_RANKID=1\nPALS_LOCAL_RANKID=1\nPALS_LOCAL_SIZE=2\nPALS_NODEID=0\nPMI_SIZE=2\nPBS_NODEFILE=/f", "n1\n")
	f.Add("AWS_BATCH_JOB_NODE_INDEX=1\nAWS_BATCH_JOB_NUM_NODES=4\nAWS_BATCH_JOB_MAIN_NODE_INDEX=2\n"+
		"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1", "")
	f.Add("SM_HOSTS=[\"\",\"b\"]\nSM_CURRENT_HOST=b", "")
	f.Add("SM_HOSTS=[\"a\",\"b\"]\nSM_CURRENT_HOST=b\nSM_NUM_GPUS=8", "")
	f.Fuzz(func(t *testing.T, environ, file string) {
		found, err := Find(fuzzWorld(environ, file), "")
		if err != nil || found == nil || found.Engine == "slurm" { // whose names scontrol reads
			return
		}
		for _, h := range found.Hosts {
			if h.Name == "" || strings.HasPrefix(h.Name, "-") || strings.ContainsAny(h.Name, " \t\n'\"$`;&|<>") || h.Slots < 0 {
				t.Errorf("host %+v", h)
			}
		}
		if task := found.Task; task != nil {
			if task.Rank >= task.NumTasks || task.LocalRank >= task.LocalTasks || task.Node >= task.NumNodes ||
				min(task.Rank, task.LocalRank, task.Node) < 0 {
				t.Errorf("task %+v", *task)
			}
			return
		}
		found.Start(found.Hosts)
	})
}

// fuzzWorld has the file by every name and from every command, and all commands.
func fuzzWorld(environ, file string) World {
	values := make(map[string]string)
	for line := range strings.Lines(environ) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[name] = value
		}
	}
	return World{
		Lookup: func(name string) (string, bool) {
			value, ok := values[name]
			return value, ok
		},
		ReadFile: func(string) ([]byte, error) {
			if file == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(file), nil
		},
		IsThisHost: func(name string) bool { return name == "here" },
		LookPath:   func(name string) (string, error) { return "/bin/" + name, nil },
		Output: func(argv ...string) ([]byte, error) {
			if argv[1] == "job" && argv[2] == "info" {
				return []byte(`{"execution":{"nodelist":["n[1-2]"]}}`), nil
			}
			return []byte(file), nil
		},
	}
}
