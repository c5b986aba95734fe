package main

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasInterface(t *testing.T) {
	require.True(t, hasInterface("lo"))
	require.False(t, hasInterface("nosuch0"))
}

func TestIsThisHost(t *testing.T) {
	own, err := os.Hostname()
	require.NoError(t, err)
	for _, name := range []string{own, "127.0.0.1", "127.3.2.1", "::ffff:127.0.0.1"} {
		require.True(t, isThisHost(name), name)
	}
	// Addresses that documentation has for itself, and what is no address of a host.
	for _, name := range []string{
		"not-" + own, "", "192.0.2.254", "2001:db8::1", "0.0.0.0", "::", "224.0.0.1",
		"ff02::1",
	} {
		require.False(t, isThisHost(name), name)
	}
}

// Every address that the kernel lists is recognised.
func TestIsOwnAddress(t *testing.T) {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		require.NoError(t, err)
		if addr := prefix.Addr(); !addr.IsLinkLocalUnicast() { // those need the name of an interface
			require.True(t, isOwnAddress(addr), addr.String())
		}
	}
}
