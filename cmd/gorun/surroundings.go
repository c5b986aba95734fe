package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/hosts"
)

// isThisHost reports whether a name or address means the host that gorun runs
// on: its own name, with or without domain, or one of its addresses.
func isThisHost(name string) bool {
	if addr, err := netip.ParseAddr(name); err == nil {
		return isOwnAddress(addr)
	}
	own, err := os.Hostname()
	if err != nil {
		return false
	}
	return hosts.SameName(name, own)
}

// hasInterface reports whether the host has a network interface of a name. Where the
// kernel's files do not tell it has any.
func hasInterface(name string) bool {
	const all = "/sys/class/net"
	if _, err := os.Stat(all); err != nil || strings.Contains(name, "/") {
		return true
	}
	_, err := os.Lstat(all + "/" + name)
	return err == nil
}

// isOwnAddress asks the kernel, by binding a socket that sends nothing: no list
// of interfaces has to be read, and addresses in the routing table count too.
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

// patience is how long a resource manager may take to answer.
const patience = 30 * time.Second

// outputOf runs a command and returns what it prints, or what it said of its failure.
func outputOf(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second // what it has started may hold its output
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		said := strings.TrimSpace(string(exit.Stderr))
		return nil, errors.New(printable.Text(printable.Short(strings.TrimPrefix(said+" ("+exit.String()+")", " "))))
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", patience)
	}
	return out, err
}

// isUnknown reports whether there is no host of a name, as far as the resolver says. A
// resolver that does not answer says nothing.
func isUnknown(name string) bool {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	unknown, ok := errors.AsType[*net.DNSError](err)
	return ok && unknown.IsNotFound
}

// listLimit bounds a host file or a rank file, in bytes: a million lines of some
// sixty. It is there for names that are mistaken (a disk image, /dev/zero).
const listLimit = 64 << 20

// readList reads a host file or a rank file. Pipes and /dev/stdin are read to their
// end; what has none, or is longer than any list, is an error that names the limit.
func readList(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	tooLong := &fs.PathError{
		Op: "read", Path: name,
		Err: fmt.Errorf("more than %d MiB, the most that a list of hosts or ranks may have", listLimit>>20),
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > listLimit {
		return nil, tooLong
	}
	text, err := io.ReadAll(io.LimitReader(f, listLimit+1))
	if err == nil && len(text) > listLimit {
		return nil, tooLong
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), err // editors of other systems begin files by this mark
}

// tokenLimit is more than a token can have, in bytes.
const tokenLimit = 64 << 10

// readToken reads a file with a secret and says whose it is and who may read it: the file
// that was opened, whatever its name means by now. A pipe that nobody writes to is not
// waited for.
func readToken(name string) (dialect.TokenFile, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return dialect.TokenFile{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return dialect.TokenFile{}, err
	}
	file := dialect.TokenFile{Mode: info.Mode(), UID: int(info.Sys().(*syscall.Stat_t).Uid)}
	if file.Mode.IsRegular() {
		file.Content, err = io.ReadAll(io.LimitReader(f, tokenLimit))
	}
	return file, err
}
