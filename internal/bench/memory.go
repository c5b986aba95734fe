package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// memory measures launchers whose ranks do nothing.
func memory(b *bench) error {
	const most = 16 << 10 // KiB of gorun with 256 ranks
	r := b.table("memory of a launcher whose ranks stand still", "launcher", "ranks", "RSS MiB", "peak MiB",
		"its own MiB", "its helpers MiB", "target", "verdict")
	mib := func(kib int) string { return number(float64(kib) / 1024) }
	for _, p := range []struct {
		name  string
		ranks int
		argv  []string
	}{
		{"gorun", 4, []string{b.gorun, "-n", "4"}},
		{"gorun", 256, []string{b.gorun, "-n", "256"}},
		{"hydra", 256, []string{b.hydra, "-n", "256"}},
		{"torchrun", 4, []string{b.torchrun, "--no-python", "--nproc-per-node", "4"}},
	} {
		if p.argv[0] == "" {
			continue
		}
		job, err := start(exec.Command(p.argv[0], append(p.argv[1:], b.stand)...), p.ranks)
		if err != nil {
			return err
		}
		launcher, err := residentSizeOf(job.Process.Pid)
		helpers := 0
		for _, pid := range descendants(job.Process.Pid) {
			program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if one, err := residentSizeOf(pid); err == nil && program != b.stand {
				helpers += one.now
			}
		}
		job.stop()
		if err != nil {
			return err
		}
		target, reached := "", ""
		if p.name == "gorun" && p.ranks == 256 {
			target, reached = "≤ "+mib(most), verdict(launcher.own <= most, launcher.own <= most)
		}
		r.row(p.name, p.ranks, mib(launcher.now), mib(launcher.peak), mib(launcher.own), mib(helpers), target, reached)
	}
	return nil
}

// output measures the throughput of ranks that print through a launcher to /dev/null, and how its memory grows.
func output(b *bench) error {
	const ranks, perRank, rounds = 4, 256_000_000, 5
	const leastMB, mostMiB = 500.0, 32.0
	n := strconv.Itoa(ranks)
	r := b.table(fmt.Sprintf("output of %d ranks × %d MB to /dev/null", ranks, perRank/1_000_000),
		"path", "best MB/s", "median MB/s", "RSS growth MiB", "target", "verdict")
	paths := []struct {
		name  string
		argv  []string
		speed samples // MB/s
		grown float64 // MiB, the most of all rounds
	}{
		{name: "gorun", argv: []string{b.gorun, "-n", n}},
		{name: "gorun --label=always", argv: []string{b.gorun, "-n", n, "--label=always"}},
		{name: "forkloop", argv: []string{b.forkloop, n}},
		{name: "hydra", argv: []string{b.hydra, "-n", n}},
	}
	more := b.nextRow(rounds)
	for round := 0; more(round); round++ {
		for i := range paths {
			p := &paths[i]
			if p.argv[0] == "" {
				continue
			}
			wall, grown, err := growth(exec.Command(p.argv[0], append(p.argv[1:], b.flood, strconv.Itoa(perRank))...))
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.speed, p.grown = append(p.speed, ranks*perRank/1e6/wall.Seconds()), max(p.grown, grown)
		}
	}
	for _, p := range paths {
		target, reached := "", ""
		if p.name == "gorun" {
			target = fmt.Sprintf("≥ %g MB/s, ≤ %g MiB", leastMB, mostMiB)
			reached = verdict(p.speed.max() >= leastMB && p.grown <= mostMiB,
				p.speed.median() >= leastMB && p.grown <= mostMiB)
		}
		if p.argv[0] != "" {
			r.row(p.name, number(p.speed.max()), number(p.speed.median()), number(p.grown), target, reached)
		}
	}
	return nil
}

// growth runs a launcher on /dev/null and returns how long that took, and by how many MiB its memory grew from its
// start to its peak.
func growth(command *exec.Cmd) (wall time.Duration, grown float64, err error) {
	begin := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var first, last residentSize
	for {
		select {
		case err := <-ended:
			return time.Since(begin), float64(last.peak-first.now) / 1024, err
		case <-time.After(5 * time.Millisecond):
		}
		if now, err := residentSizeOf(command.Process.Pid); err == nil {
			last = now
		}
		if first.now == 0 {
			first = last
		}
	}
}
