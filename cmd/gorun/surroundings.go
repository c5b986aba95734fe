package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env"
	"gorun/internal/printable"
	"gorun/launcher/hosts"
)

// surroundings is everything about this process and host that a command line may depend on. It removes the token from
// the environment, so that no process inherits it.
func surroundings() dialect.Surroundings {
	token, given := os.LookupEnv(env.VarToken)
	_ = os.Unsetenv(env.VarToken) // fails only for malformed names
	lookup := func(name string) (string, bool) {
		if name == env.VarToken {
			return token, given
		}
		return os.LookupEnv(name)
	}
	return dialect.Surroundings{
		Lookup: lookup, Names: variableNames, UID: os.Geteuid(),
		ReadFile: readList, ReadToken: readToken, IsThisHost: isThisHost, LookPath: exec.LookPath, Output: commandOutput,
		IsUnknown:    isUnknownHost,
		HasInterface: hasInterface,
		Commands:     publicCommands,
	}
}

func variableNames() []string {
	names := os.Environ()
	for i, entry := range names {
		names[i], _, _ = strings.Cut(entry, "=")
	}
	return names
}

// isThisHost reports whether a name, with or without domain, or an address is this host's.
func isThisHost(name string) bool {
	if addr, err := netip.ParseAddr(name); err == nil {
		return isOwnAddress(addr)
	}
	own, err := os.Hostname()
	return err == nil && hosts.SameName(name, own)
}

// hasInterface reports whether this host has a network interface of that name; true if sysfs does not tell.
func hasInterface(name string) bool {
	const interfaces = "/sys/class/net"
	if _, err := os.Stat(interfaces); err != nil || strings.Contains(name, "/") {
		return true
	}
	_, err := os.Lstat(interfaces + "/" + name)
	return err == nil
}

// isOwnAddress binds a socket, which is cheaper than a list of interfaces and knows addresses of the routing table.
func isOwnAddress(addr netip.Addr) bool {
	addr = addr.Unmap()
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: addr.As16()})
	if addr.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: addr.As4()}
	}
	if addr.IsUnspecified() || addr.IsMulticast() {
		return false
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Bind(fd, to) == nil
}

// commandTimeout bounds the commands of resource managers.
const commandTimeout = 30 * time.Second

// commandOutput runs a command and returns its standard output. If it fails, its standard error is the error.
func commandOutput(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second // its own children may hold its output open
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return out, fmt.Errorf("no answer within %s", commandTimeout)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		text := strings.TrimSpace(string(exit.Stderr)) + " (" + exit.String() + ")"
		return nil, errors.New(printable.Text(printable.Short(strings.TrimPrefix(text, " "))))
	}
	return out, err
}

// isUnknownHost reports whether the resolver knows that there is no host of that name. A timeout is false.
func isUnknownHost(name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	unknown, ok := errors.AsType[*net.DNSError](err)
	return ok && unknown.IsNotFound
}

// maxList bounds a hostfile or rankfile, in bytes. It catches mistaken names, such as a disk image or /dev/zero.
const maxList = 64 << 20

// readList reads a hostfile or rankfile; pipes are read to their end.
func readList(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, printable.Cause(err) // the option names the file
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err == nil && len(text) > maxList {
		err = fmt.Errorf("more than %d MiB, the most that a list of hosts or ranks may have", maxList>>20)
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), printable.Cause(err) // a byte order mark
}

// maxToken bounds a token file, in bytes.
const maxToken = 64 << 10

// readToken reads a token file, with the mode and owner of the very file that it opened. It does not wait for a writer
// of a pipe.
func readToken(name string) (dialect.TokenFile, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return dialect.TokenFile{}, printable.Cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return dialect.TokenFile{}, err
	}
	file := dialect.TokenFile{Mode: info.Mode(), UID: int(info.Sys().(*syscall.Stat_t).Uid)}
	if file.Mode.IsRegular() {
		file.Content, err = io.ReadAll(io.LimitReader(f, maxToken))
	}
	return file, err
}
