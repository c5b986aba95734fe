package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
	"gorun/internal/testslurm"
)

// launches compares N × /bin/true. The lower bound is a loop in C with two pipes per rank. Ranks that do not use MPI
// should not pay for its protocols. Open MPI 4 often hangs with 64 ranks or more, when ranks end before it has
// registered them.
func launches(b *bench) error {
	r := b.comparisons("launch of N × /bin/true")
	times := func(ratio float64) goal { return goal{ratio: ratio} }
	for _, s := range []struct {
		ranks, rounds, openMPI, torchrun int
		hydra, forkloop, script          goal
	}{
		{1, 200, 20, 5, times(0.8), goal{above: 2}, times(0.005)},
		{4, 200, 20, 5, times(0.75), goal{above: 2}, times(0.005)},
		{16, 100, 20, 5, times(0.85), times(1.35), times(0.01)},
		{64, 60, 10, 0, times(0.8), times(1.05), goal{}},
		{256, 30, 6, 0, times(0.6), times(0.92), goal{}},
	} {
		if !b.selects(s.ranks) {
			continue
		}
		n := strconv.Itoa(s.ranks)
		peers := []peer{
			{name: "gorun", argv: []string{b.gorun, "-n", n, b.true}},
			{name: "mpi=none", argv: []string{b.gorun, "--mpi=none", "-n", n, b.true}, goal: times(1.05)},
			{name: "forkloop", argv: []string{b.forkloop, n, b.true}, goal: s.forkloop},
			{name: "hydra", argv: []string{b.hydra, "-n", n, b.true}, goal: s.hydra},
			{
				name: "openmpi", argv: []string{b.openMPI, "--allow-run-as-root", "--oversubscribe", "-n", n, b.true},
				runs: s.openMPI, limit: 8 * time.Second, goal: times(0.25),
			},
			{
				name: "torchrun", argv: []string{b.torchrun, "--no-python", "--nproc-per-node", n, b.true},
				runs: s.torchrun, goal: s.script,
			},
		}
		if s.torchrun == 0 {
			peers = peers[:len(peers)-1]
		}
		if _, err := b.compare(r, n+" ranks", s.rounds, peers...); err != nil {
			return err
		}
	}
	return nil
}

// mpiLaunches compares an MPI program under gorun and under the launcher of its own library.
func mpiLaunches(b *bench) error {
	r := b.comparisons("an MPI program that begins, meets in a barrier and ends")
	ours := func(n, program string) peer {
		return peer{name: "gorun", argv: []string{b.gorun, "-q", "-n", n, program}}
	}
	return errors.Join(
		b.besideMPI(r, testneeds.LayerMPICH, [3]int{30, 12, 5}, 1, ours),
		b.besideMPI(r, testneeds.LayerOpenMPI, [3]int{30, 12, 5}, 0.8, ours))
}

// joins compares how long ranks of package comm and of MPICH take up to their first barrier.
func joins(b *bench) error {
	r := b.comparisons("joining: from exec to the end behind the first barrier")
	return b.besideMPI(r, testneeds.LayerMPICH, [3]int{9, 5, 3}, 0.2, func(n, _ string) peer {
		return peer{name: "comm", argv: []string{b.gorun, "-q", "-n", n, b.self, "as-rank", "0"}}
	})
}

// besideMPI compares the command from ours with mpihello under the MPI's own launcher, for 4, 16 and 64 ranks.
func (b *bench) besideMPI(r *report, layer testneeds.Layer, rounds [3]int, ratio float64,
	ours func(n, program string) peer,
) error {
	library := testneeds.FindMPI(".", layer)
	if library.Compiler == "" || !library.HasLauncher() {
		r.note("left out: %s is not here with its compiler", layer)
		return nil
	}
	program, err := b.compile("mpihello", library.Compiler, "-O2")
	for i, ranks := range []int{4, 16, 64} {
		if err != nil || !b.selects(ranks) {
			continue
		}
		argv := library.Launch(ranks, program)
		_, err = b.compare(r, fmt.Sprintf("%s, %d ranks", layer, ranks), rounds[i], ours(strconv.Itoa(ranks), program),
			peer{name: filepath.Base(argv[0]), argv: argv, goal: goal{ratio: ratio}})
	}
	return err
}

// pytorch compares a small job. gorun should save at least torchrun's own start-up.
func pytorch(b *bench) error {
	r := b.comparisons("4 ranks of PyTorch: init_process_group, all_reduce, exit")
	if b.torchrun == "" {
		return nil
	}
	const script = "examples/torch/hello.py"
	// one thread, as both launchers choose if there are no more CPUs than ranks
	environ := []string{"OMP_NUM_THREADS=1", "GORUN_PYTHON=" + b.python}
	all, err := b.compare(r, "4 ranks", 7,
		peer{name: "gorun", argv: []string{b.gorun, "--nproc-per-node", "4", script}, environ: environ},
		peer{name: "torchrun", argv: []string{b.torchrun, "--nproc-per-node", "4", script}, environ: environ},
		peer{name: "torchrun of /bin/true", argv: []string{b.torchrun, "--no-python", "--nproc-per-node", "4", b.true}})
	if err == nil && len(all) == 3 {
		ours, theirs, bare := all[0], all[1], all[2]
		least, middle := theirs.min()-ours.min(), theirs.median()-ours.median()
		r.note("gorun saves %s ms (median %s), torchrun's own start-up takes %s ms (%s): %s", number(least), number(middle),
			number(bare.min()), number(bare.median()), verdict(least >= bare.min(), middle >= bare.median()))
	}
	return err
}

// overHosts compares /bin/true on each of N hosts, which are namespaces with sshd and share this machine's CPUs.
// Hydra and mpirun use the same ssh_config and key.
func overHosts(b *bench) error {
	const most = 64
	if b.inside == "" {
		if err := testneeds.FindHosts(); err != nil {
			log.Printf("hosts: left out: %v", err)
			return nil
		}
		set, err := testhosts.Start(testhosts.Config{Hosts: most, PrivateHome: true, SSHD: []string{"MaxStartups 1000"}})
		if err != nil {
			return err
		}
		return errors.Join(b.runInside(set.Dir(), "hosts", func(argv ...string) *exec.Cmd {
			return set.Command(testhosts.Head, argv...)
		}), set.Down())
	}
	r := b.comparisons("launch of /bin/true on N hosts over SSH")
	for _, s := range []struct{ hosts, rounds, cold int }{{1, 40, 5}, {4, 30, 5}, {16, 15, 5}, {most, 5, 3}} {
		if !b.selects(s.hosts) {
			continue
		}
		if err := b.onHosts(r, s.hosts, s.rounds, s.cold); err != nil {
			return err
		}
	}
	return b.idleHosts(r, most)
}

// hostList returns the first n hosts, each with one slot.
func hostList(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("h%d:1", i+1)
	}
	return strings.Join(list, ",")
}

// overSSH returns the command that runs a program with gorun on a number of hosts.
func (b *bench) overSSH(hosts int, program string) *exec.Cmd {
	return exec.Command(b.gorun, "--ssh-config", filepath.Join(b.inside, "ssh_config"), "-H", hostList(hosts), program)
}

func (b *bench) onHosts(r *report, hosts, rounds, cold int) error {
	const limit = 2 * time.Minute
	n, what, ssh := strconv.Itoa(hosts), fmt.Sprintf("%d hosts", hosts), filepath.Join(b.inside, "ssh")
	gorun := peer{name: "gorun", argv: b.overSSH(hosts, b.true).Args, limit: limit}
	_, err := b.compare(r, what, rounds, gorun,
		peer{
			name: "hydra", limit: limit, goal: goal{ratio: 0.45},
			argv: []string{b.hydra, "-launcher", "ssh", "-launcher-exec", ssh, "-hosts", hostList(hosts), "-n", n, b.true},
		},
		peer{name: "openmpi", limit: limit, goal: goal{ratio: 0.7}, argv: []string{
			b.openMPI, "--allow-run-as-root", "--mca", "plm_rsh_agent", ssh, "-H", hostList(hosts), "-n", n, b.true,
		}})
	if err != nil {
		return err
	}
	// The first launch copies gorun to each host. It should take at most twice as long as the second.
	first := gorun
	first.name = "gorun, first"
	first.prepare = func() (err error) {
		for i := range hosts {
			home := filepath.Join(b.inside, fmt.Sprintf("h%d", i+1), "home", "root")
			err = errors.Join(err, os.RemoveAll(filepath.Join(home, ".cache", "gorun")))
		}
		return err
	}
	gorun.goal = goal{ratio: 2}
	_, err = b.compare(r, what, cold, first, gorun)
	return err
}

// idleHosts measures the CPU time of the launcher while ranks do nothing.
func (b *bench) idleHosts(r *report, hosts int) error {
	const watched, most = 15 * time.Second, 1 // % of a core
	job, err := start(b.overSSH(hosts, b.stand), hosts)
	if err != nil {
		return err
	}
	defer job.stop()
	spent, err := job.cpu()
	if err != nil {
		return err
	}
	begun := time.Now()
	<-time.After(watched)
	after, err := job.cpu()
	share := 100 * float64(after-spent) / float64(time.Since(begun))
	r.note("a job on %d hosts that does nothing takes %.2f %% of a core at the launcher (target ≤ %d %%: %s)",
		hosts, share, most, verdict(share <= most, share <= most))
	return err
}

// runInside runs a workload of this program through a command that enters hosts or nodes.
func (b *bench) runInside(inside, workload string, command func(argv ...string) *exec.Cmd) error {
	var within time.Duration
	if !b.until.IsZero() {
		within = max(time.Until(b.until), time.Second)
	}
	c := command(b.self, "-inside", inside, "-gorun", b.gorun, "-json", b.json, "-rounds", fmt.Sprint(b.rounds),
		"-within", within.String(), "-n", b.only, "-peers", b.with, fmt.Sprint("-page=", b.page), workload)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// inSlurm compares 16 × /bin/true on four nodes with what users of Slurm would type. All slurmds share this machine's
// CPUs.
func inSlurm(b *bench) error {
	const nodes, each = 4, 4
	if b.inside == "" {
		if err := testneeds.FindSlurm(); err != nil {
			log.Printf("slurm: left out: %v", err)
			return nil
		}
		cluster, err := testslurm.Open(testslurm.Config{Nodes: nodes, CPUs: each, Names: true})
		if err != nil {
			return err
		}
		return errors.Join(b.runInside("slurm", "slurm", func(argv ...string) *exec.Cmd {
			return cluster.CommandContext(context.Background(), "salloc", append([]string{"--quiet", "-N4", "-n16"}, argv...)...)
		}), cluster.Close())
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") // torchrun needs a given port
	if err != nil {
		return err
	}
	endpoint := strings.Replace(free.Addr().String(), "127.0.0.1", "localhost", 1)
	free.Close()
	srun := func(words ...string) []string {
		if slices.Contains(words, "") {
			return []string{""}
		}
		return append([]string{look("srun"), "--overlap", "--mpi=none"}, words...)
	}
	const limit = 15 * time.Second // Hydra sometimes hangs if its ranks end at once
	r := b.comparisons("16 ranks of /bin/true on 4 nodes of Slurm")
	_, err = b.compare(r, "16 ranks", 25,
		peer{name: "gorun", argv: []string{b.gorun, b.true}, limit: limit},
		peer{name: "srun -n16", argv: srun("-n16", b.true), limit: limit, goal: goal{ratio: 1.3}},
		peer{name: "srun -n4", argv: srun("-N4", "-n4", b.true), limit: limit},
		peer{
			name: "srun gorun, one a node", limit: limit,
			argv: srun("-N4", "-n4", "--ntasks-per-node=1", b.gorun, "-q", "--nproc-per-node=4", b.true),
		},
		peer{name: "srun gorun, one a rank", argv: srun("-n16", b.gorun, "-q", b.true), limit: limit},
		peer{name: "hydra", argv: []string{b.hydra, "-n", "16", b.true}, limit: limit, goal: goal{ratio: 1}},
		peer{name: "openmpi", argv: []string{b.openMPI, "--allow-run-as-root", "-n", "16", b.true}, limit: limit},
		peer{
			name: "srun torchrun", runs: 3, limit: 2 * time.Minute, goal: goal{ratio: 0.1},
			argv: srun("-N4", "-n4", "--ntasks-per-node=1", b.torchrun, "--nnodes=4", "--nproc-per-node=4",
				"--rdzv-id=bench", "--rdzv-backend=c10d", "--rdzv-endpoint="+endpoint, "--no-python", b.true),
		})
	return err
}
