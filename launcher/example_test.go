package launcher_test

import (
	"context"
	"errors"
	"fmt"

	"gorun/launcher"
	"gorun/launcher/job"
)

func ExampleRun() {
	result, err := launcher.Run(context.Background(), launcher.Spec{
		Apps:    []job.App{{Program: "echo", Args: []string{"hello"}}},
		PerNode: job.Count{Kind: job.CountFixed, N: 2},
	}, launcher.Options{})
	if err != nil {
		fmt.Println(err) // no rank has started
		return
	}
	fmt.Println("exit code", result.ExitCode)
	// Output:
	// hello
	// hello
	// exit code 0
}

// A job that fails also returns a Result. launcher.Explain(result) describes the failure in a few lines.
func ExampleRun_failure() {
	result, err := launcher.Run(context.Background(), launcher.Spec{
		Apps:    []job.App{{Program: "sh", Args: []string{"-c", "test $RANK != 1"}}},
		PerNode: job.Count{Kind: job.CountFixed, N: 2},
	}, launcher.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rank %d failed: exit code %d\n", result.First.Rank, result.ExitCode)
	// Output: rank 1 failed: exit code 1
}

func ExampleError() {
	spec := launcher.Spec{Apps: []job.App{{Program: "./missing"}}}
	_, err := launcher.Run(context.Background(), spec, launcher.Options{})
	if e, ok := errors.AsType[*launcher.Error](err); ok {
		fmt.Println("exit code", e.Code)
	}
	// Output: exit code 127
}

func ExamplePlan() {
	plan, err := launcher.Plan(context.Background(), launcher.Spec{
		Apps:    []job.App{{Program: "echo"}},
		PerNode: job.Count{Kind: job.CountFixed, N: 2},
	}, launcher.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rank := range plan.Ranks {
		fmt.Printf("rank %d: node %d, local rank %d\n", rank.Rank, rank.Node, rank.LocalRank)
	}
	// Output:
	// rank 0: node 0, local rank 0
	// rank 1: node 0, local rank 1
}
