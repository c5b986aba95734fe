package engine_test

import (
	"fmt"
	"os"
	"os/exec"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
)

// In a batch script of Slurm.
func ExampleFind() {
	environ := map[string]string{
		"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NTASKS": "8", "SLURM_TASKS_PER_NODE": "4(x2)",
	}
	found, err := engine.Find(engine.World{
		Lookup:     func(name string) (string, bool) { value, set := environ[name]; return value, set },
		ReadFile:   os.ReadFile,
		LookPath:   exec.LookPath,
		IsThisHost: func(name string) bool { return name == "node1" },
	}, "")
	if err != nil || found == nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found.Job, hosts.Names(found.Hosts), hosts.TotalSlots(found.Hosts))
	// Output: Slurm job 17 [node1 node2] 8
}
