// Command boot is the first process of a guest (see the parent folder), and each rank in it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/internal/interop/guest"
)

func init() { runtime.LockOSThread() } // a rank inherits the memory policy and CPU mask of its first thread

func main() {
	if os.Getenv(guest.RankVariable) != "" {
		if err := beRank(); err != nil {
			fmt.Fprintln(os.Stderr, "rank:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "boot: this is the first process of a guest: start no other with it")
		os.Exit(2)
	}
	if err := beInit(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	// qemu runs with -no-reboot, so a restart ends it.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

// beInit sets up the system and runs the cases.
func beInit() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu +cpuset"), 0o644); err != nil {
		return err
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	text, err := os.ReadFile("/" + guest.CasesFile)
	if err != nil {
		return err
	}
	var cases []guest.Case
	if err := json.Unmarshal(text, &cases); err != nil {
		return err
	}
	results, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	all := json.NewEncoder(results)
	machine, err := exec.Command("/gorun", "topo", "--json").Output()
	if err != nil {
		return fmt.Errorf("gorun topo: %w", err)
	}
	if err := all.Encode(guest.Outcome{Stdout: string(machine)}); err != nil {
		return err
	}
	for number, c := range cases {
		if err := all.Encode(try(number, c)); err != nil {
			return err
		}
	}
	// Closing the port discards buffered output, so drain it first.
	return errors.Join(unix.IoctlSetInt(int(results.Fd()), unix.TCSBRK, 1), results.Close())
}

// raiseLoopback brings up the network device lo, which the kernel leaves to user space.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// try runs gorun for a case, once for its plan and once for its ranks.
func try(number int, c guest.Case) (came guest.Outcome) {
	group, err := enter(number, c.Group)
	if err != nil {
		return guest.Outcome{Error: err.Error()}
	}
	defer group.Close()
	if c.ReadOnly {
		if err := unix.Mount("", "/sys", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return guest.Outcome{Error: err.Error()}
		}
		defer unix.Mount("", "/sys", "", unix.MS_REMOUNT, "")
	}
	var stdout, stderr bytes.Buffer
	run := func(words ...string) {
		stdout.Reset()
		command := exec.Command("/gorun", append(words, "/init")...)
		command.Env = []string{"PATH=/", "TMPDIR=/tmp", guest.RankVariable + "=1"}
		command.Stdout, command.Stderr = &stdout, &stderr
		command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if err := command.Run(); err != nil {
			came.Error += fmt.Sprintf("%s: %v\n", command, err)
		}
	}
	run(append([]string{"--dry-run", "--json"}, c.Words...)...)
	came.Plan = stdout.String()
	run(c.Words...)
	came.Stdout, came.Stderr = stdout.String(), stderr.String()
	return came
}

// enter makes a cgroup with settings and opens it.
func enter(number int, settings map[string]string) (*os.File, error) {
	dir := filepath.Join("/sys/fs/cgroup", fmt.Sprint("case-", number))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	for name, text := range settings {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return os.Open(dir)
}
