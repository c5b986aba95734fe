// Command testslurm starts a Slurm of its own on this host, says how commands find it, and ends it with Ctrl-C or
// SIGTERM; see package testslurm. Then it kills every process that has the cluster's SLURM_CONF in its environment:
// shells, too.
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

// about precedes the options in the help.
const about = `Usage: testslurm [options]

Starts a Slurm of its own on this host,
	and prints the line that makes it known in other terminals: export SLURM_CONF=...
Ctrl-C, SIGTERM and SIGHUP end it. Then every process with that SLURM_CONF in its environment is killed: daemons, jobs,
and whatever was started where the line was typed, such as editors and shells begun after it.

`

func main() {
	var config testslurm.Config
	flag.IntVar(&config.Nodes, "nodes", 4, "number of nodes n1 to nN")
	flag.IntVar(&config.CPUs, "cpus", 4, "CPUs that each node claims to have")
	flag.IntVar(&config.GPUs, "gpus", 0, "fake GPUs of each node")
	flag.IntVar(&config.KillWait, "kill-wait", 5, "seconds from SIGTERM to SIGKILL when a job ends")
	flag.BoolVar(&config.Names, "names", false,
		"n1 to nN resolve, to 127.0.0.1, in jobs; needs a mount namespace, as root has")
	flag.Func("line", "`KEY=VALUE` of slurm.conf; may be given again", func(line string) error {
		config.Lines = append(config.Lines, line)
		return nil
	})
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), about)
		flag.PrintDefaults()
	}
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
	fmt.Fprintf(os.Stderr, "%d nodes of %d CPUs, other numbers with the options of testslurm -help; logs are in %s/log; "+
		"Ctrl-C ends the cluster\n", config.Nodes, config.CPUs, cluster.Dir())
	<-ends
	return cluster.Close()
}
