// Command importer is a program of another module. It starts itself as two ranks, which add up their numbers.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"gorun/comm"
	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/job"
)

func main() {
	launcher.Main()
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if os.Getenv(env.VarRank) != "" {
		return rank(ctx)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	result, err := launcher.Run(ctx, launcher.Spec{
		Apps:    []job.App{{Program: program}},
		PerNode: job.Count{Kind: job.CountFixed, N: 2},
	})
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", result.ExitCode)
	}
	return err
}

func rank(ctx context.Context) error {
	self, err := env.Self()
	if err != nil {
		return err
	}
	group, err := comm.Join(ctx)
	if err != nil {
		return err
	}
	defer group.Close()
	sum := []int64{int64(self.Rank + 1)}
	if err := comm.AllReduce(ctx, group, sum, sum, comm.Sum); err != nil {
		return err
	}
	fmt.Printf("rank %d of %d: %d\n", self.Rank, self.WorldSize, sum[0])
	return nil
}
