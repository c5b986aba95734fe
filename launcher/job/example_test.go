package job_test

import (
	"fmt"

	"gorun/launcher/job"
)

// A plan needs what each host has reported. Package launcher asks the hosts; here their answers are made up.
func ExampleNewPlan() {
	spec := &job.Spec{
		Apps:    []job.App{{Program: "./trainer"}},
		PerNode: job.Count{Kind: job.CountFixed, N: 2},
	}
	facts := []job.Facts{{Facts: job.NodeFacts{
		Host:     "node1",
		Programs: []job.Program{{Path: "/home/ann/trainer", Argv: []string{"./trainer"}}},
	}}}
	plan, err := job.NewPlan(spec, facts, job.IDs{Job: job.AtStart, Run: "none"}, job.Opened{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(plan.Ranks), "ranks on", plan.Hosts())
	// Output: 2 ranks on [node1]
}

// A supervisor starts and stops nothing: it says what to do about each event.
func ExampleSupervisor() {
	supervisor, _ := job.NewSupervisor(job.SupervisorConfig{Nodes: [][]int{{0, 1}}, Grace: job.DefaultGrace})
	exited := func(rank, code int) []job.Order {
		event := job.Exited{}
		event.Rank, event.Code = rank, code
		return supervisor.Next(event)
	}
	for _, order := range exited(1, 3) {
		fmt.Printf("%T\n", order)
	}
	exited(0, 0)
	fmt.Println("exit code", supervisor.Result().ExitCode)
	// Output:
	// job.Arm
	// exit code 3
}
