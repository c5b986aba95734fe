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
	for _, name := range []string{prefix + "a", prefix + "b", prefix + "listens", "other/" + prefix} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}))
		if name == prefix+"listens" {
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
	b = append(b, make([]byte, -len(b)&3)...)
	b = binary.NativeEndian.AppendUint16(b, unix.SizeofRtAttr+4)
	b = binary.NativeEndian.AppendUint16(b, unixUID)
	return binary.NativeEndian.AppendUint32(b, uid)
}

// socketsIn are those of a part of the kernel's list.
func socketsIn(part []byte) (found []Named, last bool, err error) {
	last, err = parseList(part, func(body []byte) {
		if s, ok := parseUnix(body); ok {
			found = append(found, s)
		}
	})
	return found, last, err
}

func TestParseNamed(t *testing.T) {
	one, two := message(sockDiagByFamily, 0, unixSocket("\x00x/1", 507)),
		message(sockDiagByFamily, 0, unixSocket("\x00x/two", 508))
	found, last, err := socketsIn(append(one, two...))
	require.NoError(t, err)
	require.False(t, last)
	require.Equal(t, []Named{{"x/1", Owner{UID: 507}}, {"x/two", Owner{UID: 508}}}, found)
	_, last, err = socketsIn(message(unix.NLMSG_DONE, 0, nil))
	require.NoError(t, err)
	require.True(t, last)
	missing := int32(-int(unix.ENOENT))
	_, _, err = socketsIn(message(unix.NLMSG_ERROR, 0, binary.NativeEndian.AppendUint32(nil, uint32(missing))))
	require.ErrorIs(t, err, unix.ENOENT)
	for _, broken := range [][]byte{one[:len(one)-1], message(unix.NLMSG_ERROR, 0, nil)} {
		_, _, err = socketsIn(broken)
		require.Error(t, err)
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
		found, _, _ := socketsIn(part)
		for _, s := range found {
			require.NotEmpty(t, s.Name)
			require.GreaterOrEqual(t, s.UID, 0)
		}
	})
}
