package main

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/job"
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
	// Addresses reserved for documentation, and strings that are not host addresses.
	for _, name := range []string{
		"not-" + own, "", "192.0.2.254", "2001:db8::1", "0.0.0.0", "::", "224.0.0.1",
		"ff02::1",
	} {
		require.False(t, isThisHost(name), name)
	}
}

// gorun recognises every address that the kernel lists as its own.
func TestIsOwnAddress(t *testing.T) {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		require.NoError(t, err)
		if addr := prefix.Addr(); !addr.IsLinkLocalUnicast() { // link-local addresses need the name of an interface
			require.True(t, isOwnAddress(addr), addr.String())
		}
	}
}

// joining returns the errors of a node with a token file. The node does not join, because its other options are
// wrong too.
func joining(file string) string {
	var said bytes.Buffer
	gorun("gorun", []string{"--nnodes", "2", "--node-rank", "2", "--master-addr", "a", "--token-file", file, "x"},
		&said, &said)
	return said.String()
}

// gorun checks the owner and mode of the token file that it opened.
func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode, uid, gid int) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(job.Token{1}.Text()+"\n"), mode))
		require.NoError(t, os.Chown(file, uid, gid))
		return file
	}
	own := write("own", 0o600, -1, -1)
	require.NotContains(t, joining(own), "--token-file")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(own, link))
	require.NotContains(t, joining(link), "--token-file", "Kubernetes mounts secrets as links")

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.Contains(t, joining(pipe), "not a regular file")
	require.Contains(t, joining(dir), "not a regular file")
	require.Contains(t, joining("/dev/zero"), "not a regular file")

	testneeds.Root(t)
	require.Contains(t, joining(write("theirs", 0o600, 54321, -1)), "it belongs to uid 54321, which knows this secret")
	require.NotContains(t, joining(write("mounted", 0o440, 0, 54321)), "--token-file", "a group that root chose")
}
