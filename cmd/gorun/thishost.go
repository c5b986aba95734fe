package main

import (
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

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
