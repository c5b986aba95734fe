package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// held is what a process holds, in KiB, from /proc/PID/status: now (VmRSS) and at most (VmHWM).
type held struct{ now, peak int }

func heldBy(pid int) (h held, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(status)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "VmRSS":
			_, err = fmt.Sscan(value, &h.now)
		case "VmHWM":
			_, err = fmt.Sscan(value, &h.peak)
		}
	}
	if h.now == 0 {
		err = errors.Join(err, fmt.Errorf("process %d has ended", pid))
	}
	return h, err
}

// cpuTime reads a process's clock, whose number clock_getcpuclockid(3) makes of its id.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2
	var now unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &now)
	return time.Duration(now.Nano()), err
}

// standing is a launcher whose ranks all stand still.
type standing struct {
	command *exec.Cmd
	output  io.ReadCloser
}

// stand starts argv, a launcher of that many copies of the program stand, and returns when all have said that they are
// there.
func stand(argv []string, ranks int, limit time.Duration) (*standing, error) {
	command := exec.Command(argv[0], argv[1:]...)
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &standing{command, output}
	expired := time.AfterFunc(limit, func() { _ = command.Process.Kill() }) // its end closes the pipe
	defer expired.Stop()
	lines := bufio.NewScanner(output)
	for here := range ranks {
		if !lines.Scan() {
			s.end()
			return nil, fmt.Errorf("%s: only %d of %d ranks came up", argv[0], here, ranks)
		}
	}
	return s, nil
}

// cpu is the CPU time of the launcher and all processes below it.
func (s *standing) cpu() (time.Duration, error) {
	all, err := cpuTime(s.command.Process.Pid)
	for _, pid := range processTree(s.command.Process.Pid, true) {
		helper, _ := cpuTime(pid) // it may have ended
		all += helper
	}
	return all, err
}

// end asks the launcher to end its job, and makes it after a while.
func (s *standing) end() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(15*time.Second, func() { _ = s.command.Process.Kill() })
	defer forced.Stop()
	_, _ = io.Copy(io.Discard, s.output)
	_ = s.command.Wait()
}

// memory measures launchers whose ranks stand still.
func memory(b *bench) error {
	const most = 16 << 10 // KiB of gorun with 256 ranks
	r := b.table("memory of a launcher whose ranks stand still", "launcher", "ranks", "RSS MiB", "peak MiB",
		"its helpers MiB",
		"target", "verdict")
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
		job, err := stand(append(p.argv, b.stand), p.ranks, time.Minute)
		if err != nil {
			return err
		}
		launcher, err := heldBy(job.command.Process.Pid)
		helpers := 0
		for _, pid := range processTree(job.command.Process.Pid, true) {
			program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if one, err := heldBy(pid); err == nil && program != b.stand {
				helpers += one.now
			}
		}
		job.end()
		if err != nil {
			return err
		}
		target, reached := "", ""
		if p.name == "gorun" && p.ranks == 256 {
			target, reached = "≤ "+mib(most), verdict(launcher.peak <= most, launcher.now <= most)
		}
		r.row(p.name, p.ranks, mib(launcher.now), mib(launcher.peak), mib(helpers), target, reached)
	}
	return nil
}

// output measures how fast ranks that print get through a launcher to /dev/null, and how its memory grows meanwhile.
func output(b *bench) error {
	const ranks, perRank, rounds = 4, 256_000_000, 5
	const leastMB, mostMiB = 500.0, 32.0
	n, flood := strconv.Itoa(ranks), []string{b.flood, strconv.Itoa(perRank)}
	r := b.table(fmt.Sprintf("output of %d ranks × %d MB to /dev/null", ranks, perRank/1_000_000),
		"path", "best MB/s", "median MB/s", "RSS growth MiB", "target", "verdict")
	paths := []struct {
		name  string
		argv  []string
		walls []time.Duration
		grown int // KiB, the most of all rounds
	}{
		{name: "gorun", argv: []string{b.gorun, "-n", n}},
		{name: "gorun --label=always", argv: []string{b.gorun, "-n", n, "--label=always"}},
		{name: "forkloop", argv: []string{b.forkloop, n}},
		{name: "hydra", argv: []string{b.hydra, "-n", n}},
	}
	for range b.count(rounds) {
		for i := range paths {
			p := &paths[i]
			if p.argv[0] == "" {
				continue
			}
			wall, grown, err := growth(append(slices.Clone(p.argv), flood...))
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.walls, p.grown = append(p.walls, wall), max(p.grown, grown)
		}
	}
	for _, p := range paths {
		if len(p.walls) == 0 {
			continue
		}
		slices.Sort(p.walls)
		speed := func(wall time.Duration) float64 { return ranks * perRank / 1e6 / wall.Seconds() }
		best, median, grown := speed(p.walls[0]), speed(p.walls[len(p.walls)/2]), float64(p.grown)/1024
		target, reached := "", ""
		if p.name == "gorun" {
			target = fmt.Sprintf("≥ %g MB/s, ≤ %g MiB", leastMB, mostMiB)
			reached = verdict(best >= leastMB && grown <= mostMiB, median >= leastMB && grown <= mostMiB)
		}
		r.row(p.name, number(best), number(median), number(grown), target, reached)
	}
	return nil
}

// growth runs argv with its output thrown away and returns how long that took, and by how many KiB the launcher's
// memory grew between its first moments and its peak.
func growth(argv []string) (time.Duration, int, error) {
	command := exec.Command(argv[0], argv[1:]...)
	begin := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var first, last held
	for {
		select {
		case err := <-ended:
			return time.Since(begin), last.peak - first.now, err
		case <-time.After(5 * time.Millisecond):
		}
		if now, err := heldBy(command.Process.Pid); err == nil {
			if first.now == 0 {
				first = now
			}
			last = now
		}
	}
}
