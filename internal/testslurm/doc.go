// Package testslurm starts a real Slurm on this machine for tests: slurmctld, and a slurmd for each of the nodes n1 to
// nN, which are all this one host.
//
// All files of a cluster are in one temporary folder: slurm.conf, a munged with its own key and socket, state, spool
// and
// logs. It uses free ports, nothing in /etc or /run and no services, so that any number of clusters can run beside each
// other and beside the machine's own Slurm. The host's name need not resolve, and no cgroups are used.
//
//	c := testslurm.Start(t, testslurm.Config{GPUs: 2}) // skips without root or Slurm; ends with the test
//	out, err := c.Command(t, "salloc", "-N2", "-n4", "gorun", "./prog").CombinedOutput()
//	job := c.Sbatch(t, "#!/bin/sh\nexec gorun ./prog\n", "-N3", "-n5")
//	require.Equal(t, "COMPLETED", c.Wait(t, job))
//	fmt.Println(c.Output(t, job))
//
// A start takes a second or two. Tests of one package that leave the nodes alone can share a cluster through a
// [Shared],
// which TestMain closes; up to four jobs share each CPU, so that such tests can run in parallel. Tests that kill nodes
// start their own.
//
// A cluster ends with the process that started it, however that ends: a guard then kills every process with the
// cluster's
// SLURM_CONF in its environment (daemons, steps, ranks, and commands such as salloc) and removes the folder.
//
// All nodes are one host: the same host name, files, CPUs and addresses. SLURMD_NODENAME and SLURM_NODEID identify
// them.
// Without cgroups and a task plugin, CPUs and GPUs are counted and announced, not enforced.
//
// The command in cmd/testslurm does the same by hand:
//
//	go run ./internal/testslurm/cmd/testslurm
package testslurm
