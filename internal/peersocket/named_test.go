package peersocket

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestListNamed(t *testing.T) {
	prefix := fmt.Sprintf("peersocket/%d/", os.Getpid())
	for _, name := range []string{"a", "b", "listens"} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + prefix + name}))
		if name == "listens" {
			require.NoError(t, unix.Listen(fd, 1))
		}
	}
	found, err := ListNamed(prefix)
	require.NoError(t, err)
	names := map[string]int{}
	for _, s := range found {
		names[s.Name] = s.UID
	}
	require.Equal(t, map[string]int{prefix + "a": os.Geteuid(), prefix + "b": os.Geteuid()}, names)
}

// unixSocket is what the kernel says of one.
func unixSocket(name string, uid uint32) []byte {
	b := make([]byte, unixAnswer)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(name)))
	b = append(binary.NativeEndian.AppendUint16(b, unixName), name...)
	b = append(b, make([]byte, align(len(b))-len(b))...)
	b = binary.NativeEndian.AppendUint16(b, unix.SizeofRtAttr+4)
	b = binary.NativeEndian.AppendUint16(b, unixUID)
	return binary.NativeEndian.AppendUint32(b, uid)
}

func TestParseNamed(t *testing.T) {
	one, two := message(sockDiagByFamily, 0, unixSocket("\x00x/1", 507)),
		message(sockDiagByFamily, 0, unixSocket("\x00x/two", 508))
	found, last, err := parseNamed(append(one, two...), "x/")
	require.NoError(t, err)
	require.False(t, last)
	require.Equal(t, []Named{{"x/1", Owner{UID: 507}}, {"x/two", Owner{UID: 508}}}, found)
	found, _, err = parseNamed(append(one, two...), "x/t")
	require.NoError(t, err)
	require.Len(t, found, 1)
	_, last, err = parseNamed(message(unix.NLMSG_DONE, 0, nil), "x/")
	require.NoError(t, err)
	require.True(t, last)
	missing := int32(-int(unix.ENOENT))
	_, _, err = parseNamed(message(unix.NLMSG_ERROR, 0, binary.NativeEndian.AppendUint32(nil, uint32(missing))), "x/")
	require.ErrorIs(t, err, unix.ENOENT)
	for _, broken := range [][]byte{one[:len(one)-1], one[:3], message(unix.NLMSG_ERROR, 0, nil)} {
		_, _, err = parseNamed(broken, "x/")
		require.ErrorIs(t, err, errBrokenList)
	}
	for _, none := range [][]byte{
		nil, unixSocket("/tmp/path", 507), unixSocket("\x00x", 507)[:20],
		make([]byte, unixAnswer),
	} {
		_, ok := parseUnix(none)
		require.False(t, ok)
	}
}

func FuzzParseNamed(f *testing.F) {
	f.Add(append(message(sockDiagByFamily, 0, unixSocket("\x00x/1", 507)), message(unix.NLMSG_DONE, 0, nil)...))
	f.Add(message(unix.NLMSG_ERROR, 0, []byte{1, 2, 3, 4}))
	f.Fuzz(func(t *testing.T, part []byte) {
		found, _, _ := parseNamed(part, "x")
		for _, s := range found {
			require.Equal(t, "x", s.Name[:1])
			require.GreaterOrEqual(t, s.UID, 0)
		}
	})
}
