package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// How a server's process finds out names of hosts.
const (
	namesAsHere    = "here"  // as this machine does
	namesFromFiles = "files" // from /etc/hosts alone
	namesFromOurs  = "ours"  // from a name server of this program, too
)

// nameServer is where that one listens: on loopback, at an address that is nobody's.
const nameServer = "127.53.53.53"

// under returns a command that runs argv with names looked up in that way, in a mount name space of its own.
func under(names string, argv []string) *exec.Cmd {
	if names == namesAsHere {
		command := exec.Command(argv[0], argv[1:]...)
		command.SysProcAttr = &syscall.SysProcAttr{}
		return command
	}
	command := exec.Command("/proc/self/exe", append([]string{"-names", names, "--"}, argv...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		command.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return command
}

// canSet reports what is in the way of under.
func canSet(names string) error {
	said, err := under(names, []string{"/bin/true"}).CombinedOutput()
	if err != nil {
		return fmt.Errorf("a mount name space: %w %s", err, said)
	}
	return nil
}

// execWith is the other side of under: it puts other files over /etc and becomes argv.
func execWith(names string, argv []string) error {
	if len(argv) == 0 {
		return errors.New("-names wants a command")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	files := map[string]string{"/etc/nsswitch.conf": "hosts: files\n"}
	if names == namesFromOurs {
		files = map[string]string{"/etc/nsswitch.conf": "hosts: files dns\n", "/etc/resolv.conf": "nameserver " + nameServer + "\n"}
	}
	for path, text := range files {
		if err := cover(path, text); err != nil {
			return err
		}
	}
	return fmt.Errorf("start %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

// cover has path, a file that exists, hold text for this mount name space.
func cover(path, text string) error {
	file, err := os.CreateTemp("", "gorun-bench-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	if err := unix.Mount(file.Name(), path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount over %s: %w", path, err)
	}
	return nil
}

// serveNames is a name server that knows no name, until it is closed. Of the questions it loses each nth; with 1 it is silent.
func serveNames(nth int) (net.PacketConn, error) {
	server, err := net.ListenPacket("udp4", nameServer+":53")
	if err != nil {
		return nil, fmt.Errorf("a name server: %w", err)
	}
	go func() {
		message := make([]byte, 512)
		for asked := 1; ; asked++ {
			n, from, err := server.ReadFrom(message)
			if err != nil {
				return
			}
			if n > 3 && asked%nth != 0 {
				message[2] |= 0x80                      // an answer
				message[3] = message[3]&0xf0 | 0x80 | 3 // no such name
				_, _ = server.WriteTo(message[:n], from)
			}
		}
	}()
	return server, nil
}
