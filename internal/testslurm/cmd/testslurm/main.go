// Command testslurm starts a Slurm of its own on this host, says how commands find it, and ends it with Ctrl-C;
// see package testslurm.
//
//	go run ./internal/testslurm/cmd/testslurm -nodes 4 -gpus 2
//	export SLURM_CONF=…                  # in another terminal: what it printed
//	srun -N4 printenv SLURMD_NODENAME
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gorun/internal/testneeds"
	"gorun/internal/testslurm"
)

func main() {
	var config testslurm.Config
	flag.IntVar(&config.Nodes, "nodes", 4, "number of nodes n1 to nN")
	flag.IntVar(&config.CPUs, "cpus", 4, "CPUs that each node claims to have")
	flag.IntVar(&config.GPUs, "gpus", 0, "fake GPUs of each node")
	flag.IntVar(&config.KillWait, "kill-wait", 5, "seconds from SIGTERM to SIGKILL when a job ends")
	flag.Func("line", "`KEY=VALUE` of slurm.conf; may be given again", func(line string) error {
		config.Lines = append(config.Lines, line)
		return nil
	})
	flag.Parse()
	if err := run(config); err != nil {
		fmt.Fprintln(os.Stderr, "testslurm:", err)
		os.Exit(1)
	}
}

// run holds a cluster until somebody ends it.
func run(config testslurm.Config) error {
	if err := testneeds.FindSlurm(); err != nil {
		return err
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	cluster, err := testslurm.Open(config)
	if err != nil {
		return err
	}
	fmt.Println("export SLURM_CONF=" + cluster.ConfigFile())
	fmt.Fprintln(os.Stderr, "logs are in", cluster.Dir()+"/log; Ctrl-C ends the cluster")
	<-ends
	return cluster.Close()
}
