package peersocket

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Rows as kernels on machines of little endian write them: of a socket of IPv6 that talks to 127.0.0.1, too.
func TestFindSocket(t *testing.T) {
	const rows = `  sl  local_address                         remote_address                        st tx_queue ` +
		`rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 20 4 30 10 -1
   1: 0100007F:A000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000   507        0 112 1 0 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:A001 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 ` +
		`00:00000000 00000000   508        0 113 1 0
   3: 0100007F:A002 0100007F:1F90 06 00000000:00000000 03:00001774 00000000     0        0 0 3 0000000000000000
   4: 0100007F:A003 zz
   5: 0100007Fx:A003 0100007F:1F90 01 0 0 0 1 0 114
`
	to := netip.MustParseAddrPort("127.0.0.1:8080")
	for port, want := range map[uint16]Owner{0xA000: {507, 112}, 0xA001: {508, 113}, 0xA002: {}, 0xA003: {}} {
		o, err := findSocket(ParseTable(rows), Ends{Local: netip.AddrPortFrom(to.Addr(), port), Remote: to})
		require.Equal(t, want, o, "%x", port)
		require.Equal(t, want.Inode != 0, err == nil)
	}
}

// Cut rows, the heading and sockets without a process are ignored.
func TestParseTable(t *testing.T) {
	const line = "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 " +
		"0000000000000000 100 0 0 10 0"
	at := netip.MustParseAddrPort("127.0.0.1:8080")
	none := netip.MustParseAddrPort("0.0.0.0:0")
	require.Equal(t, []Socket{{at, none, unix.BPF_TCP_LISTEN, Owner{1000, 4242}}}, ParseTable(line))
	for _, other := range []string{
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
		"", "1: x", strings.Replace(line, " 4242 ", " 0 ", 1),
	} {
		require.Empty(t, ParseTable(other), other)
	}
	six := ParseTable("0: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 01 " +
		"0:0 0:0 0 0 0 77 1")
	require.Equal(t, []Socket{{
		netip.MustParseAddrPort("[::1]:8081"), netip.MustParseAddrPort("[::]:0"), unix.BPF_TCP_ESTABLISHED, Owner{0, 77},
	}}, six)
}

// message is an answer of the kernel's.
func message(kind uint16, seq uint32, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, seq)
	return append(append(b, 0, 0, 0, 0), body...)
}

func TestAnswer(t *testing.T) {
	body, ours, err := parseAnswer(message(sockDiagByFamily, 7, []byte("body")), 7)
	require.NoError(t, err)
	require.True(t, ours)
	require.Equal(t, "body", string(body))
	_, ours, err = parseAnswer(message(sockDiagByFamily, 6, nil), 7)
	require.NoError(t, err)
	require.False(t, ours, "an answer to an earlier question")
	missing := int32(-int(unix.ENOENT))
	_, ours, err = parseAnswer(message(unix.NLMSG_ERROR, 7, binary.NativeEndian.AppendUint32(nil, uint32(missing))), 7)
	require.True(t, ours)
	require.Equal(t, unix.ENOENT, err)
	for _, broken := range [][]byte{
		nil, make([]byte, 15), message(unix.NLMSG_ERROR, 7, []byte{1}),
		message(sockDiagByFamily, 7, []byte("body"))[:18],
	} {
		_, ours, err = parseAnswer(broken, 7)
		require.True(t, ours)
		require.Error(t, err)
	}
}

// diagnosis is what the kernel says of a socket.
func diagnosis(c Ends, uid, inode uint32) []byte {
	var request [diagRequest]byte
	putDiag(request[:], c)
	b := make([]byte, diagAnswer)
	copy(b[answerID:], request[diagID:])
	binary.NativeEndian.PutUint32(b[answerUID:], uid)
	binary.NativeEndian.PutUint32(b[answerInode:], inode)
	return b
}

func TestParseDiag(t *testing.T) {
	c := Ends{Local: netip.MustParseAddrPort("127.0.0.1:40000"), Remote: netip.MustParseAddrPort("127.0.0.1:8080")}
	id := diagnosis(c, 0, 0)[answerID:][:idSize]
	owner, err := parseDiag(diagnosis(c, 507, 112), id)
	require.NoError(t, err)
	require.Equal(t, Owner{507, 112}, owner)
	mapped := c
	for _, at := range []*netip.AddrPort{&mapped.Local, &mapped.Remote} {
		*at = netip.AddrPortFrom(netip.AddrFrom16(at.Addr().As16()), at.Port())
	}
	owner, err = parseDiag(diagnosis(mapped, 507, 112), id)
	require.NoError(t, err)
	require.Equal(t, Owner{507, 112}, owner)
	_, err = parseDiag(diagnosis(c, 0, 0), id)
	require.ErrorIs(t, err, ErrUnknown, "nobody's")
	for _, other := range []Ends{
		c.reversed(),
		{Local: c.Local},
		{Local: c.Local, Remote: netip.MustParseAddrPort("127.0.0.2:8080")},
	} {
		_, err = parseDiag(diagnosis(other, 507, 112), id)
		require.ErrorIs(t, err, ErrUnknown, "another socket")
	}
	_, err = parseDiag(make([]byte, diagAnswer-1), id)
	require.ErrorContains(t, err, "71 bytes")
}

// Whatever is answered, nobody is taken for the owner of a socket that was not asked for, or that no process has.
func FuzzAnswer(f *testing.F) {
	c := Ends{Local: netip.MustParseAddrPort("127.0.0.1:40000"), Remote: netip.MustParseAddrPort("127.0.0.1:8080")}
	id := diagnosis(c, 0, 0)[answerID:][:idSize]
	f.Add(message(sockDiagByFamily, 1, diagnosis(c, 507, 112)))
	f.Add(message(sockDiagByFamily, 1, diagnosis(c, 0, 0)))
	f.Add(message(unix.NLMSG_ERROR, 1, []byte{254, 255, 255, 255}))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, ours, err := parseAnswer(b, 1)
		if err != nil || !ours {
			require.Nil(t, body)
			return
		}
		if owner, err := parseDiag(body, id); err == nil {
			require.NotZero(t, owner.Inode)
			require.Equal(t, id[:4], body[answerID:][:4])
		}
	})
}

func FuzzFindSocket(f *testing.F) {
	f.Add("   1: 0100007F:A000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000   507        0 112 1 0 20 4 30 " +
		"10 -1\n")
	f.Add("0: 0000000000000000FFFF00000100007F:A000 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0 508 0 113 1")
	f.Add("1: 0100007F:A000 0100007F:1F90 06 0:0 3:0 0 0 0 0 3")
	f.Add("1: 0100007F:A000 0100007F:1F90 06 0:0 3:0 0 0 0 0 00")
	c := Ends{Local: netip.MustParseAddrPort("127.0.0.1:40960"), Remote: netip.MustParseAddrPort("127.0.0.1:8080")}
	f.Fuzz(func(t *testing.T, rows string) {
		if owner, err := findSocket(ParseTable(rows), c); err == nil {
			require.NotZero(t, owner.Inode)
			require.Contains(t, strings.ToUpper(rows), "A000")
		}
	})
}
