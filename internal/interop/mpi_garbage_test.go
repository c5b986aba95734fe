package interop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bearable are the ranks whose requests a server may also answer with an error.
var bearable = map[string]int{"pmi": 3, "pmix": 5}

// errCutOff reports that the server closed the connection of a rank that sent garbage.
var errCutOff = errors.New("cut off")

// garbagePMI is the data that each rank of role "garbage" sends on its PMI descriptor. Rank 0 sends valid requests.
var garbagePMI = []string{
	"cmd=init pmi_version=1 pmi_subversion=1\n",
	"\x00\xff\xfe\x80no text at all\n",
	"cmd=init pmi_version=1 pmi_subversion=1\ncmd=no_such_command\n",
	"cmd=init pmi_version=1 pmi_subversion=1\nmcmd=spawn\nnprocs=-3\nexecname=\ntotspawns=999999999\nspawnssofar=7\n" +
		"endcmd\n",
	"cmd=init pmi_version=2 pmi_subversion=0\n-00017cmd=fullinit",
	strings.Repeat("A", 8<<20),
}

// garbagePMIx is the data that each rank sends after a valid PMIx handshake.
var garbagePMIx = []string{
	"",
	strings.Repeat("\xff", 4096),
	"\x00\x00\x00\x00\x00\x00\x00\x64\x00\x00\x00\x05\x00\x00\x00\x00\xff\xff\xff\xff\xff",
	"\x00\x00\x00\x00\x00\x00\x00\x64\x7f\xff\xff\xff\x00\x00\x00\x00",
	"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"\x00\x00\x00\x00\x00\x00\x00\x64\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01\x63",
}

// gorun reports garbage on a rank's connection with the rank's number, and other ranks are not affected.
func TestMPIGarbage(t *testing.T) {
	t.Parallel()
	for kind, all := range map[string][]string{"pmi": garbagePMI, "pmix": garbagePMIx} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			got := gorun("-n", fmt.Sprint(len(all)), "--on-failure", "continue", self(t)).with(roleVariable+"=garbage",
				"INTEROP_KIND="+kind).run(t)
			require.Contains(t, got.stdout, "rank 0 is served\n", got.stderr)
			for rank := 1; rank < len(all); rank++ {
				require.Contains(t, got.stdout, fmt.Sprintf("rank %d is cut off\n", rank), got.stderr)
				if rank != bearable[kind] {
					require.Contains(t, got.stderr, fmt.Sprintf("rank %d broke the MPI launch protocol", rank))
				}
			}
			require.Less(t, len(got.stderr), 10_000, "what ranks sent is not poured out")
			require.NotContains(t, got.stderr, "\x00")
			require.Equal(t, 7, got.code, "who sent garbage failed, and nobody else: %s", got.stderr)
			require.Regexp(t, `1 rank (had )?succeeded: \[0\]`, got.stderr)
		})
	}
}

// The PMIx port closes connections of unknown clients, and the job continues.
func TestMPIUnknownClient(t *testing.T) {
	t.Parallel()
	said := gorun("-n", "2", self(t)).with(roleVariable+"=garbage", "INTEROP_KIND=unknown").succeed(t)
	require.Equal(t, []string{"rank 0 is cut off", "rank 1 is cut off"}, linesOf(said))
}

// playGarbage plays role "garbage".
func playGarbage() int {
	rank, err := strconv.Atoi(os.Getenv("RANK"))
	if err == nil {
		spoil := map[string]func(int) error{"pmi": spoilPMI, "pmix": spoilPMIx, "unknown": knockPMIx}
		err = spoil[os.Getenv("INTEROP_KIND")](rank)
	}
	if errors.Is(err, errCutOff) {
		return 7
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "garbage:", err)
		return 98
	}
	return 0
}

// spoilPMI sends the rank's garbage on its PMI descriptor.
func spoilPMI(rank int) error {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "PMI")
	conn, err := net.FileConn(file)
	if err != nil {
		return err
	}
	file.Close() // otherwise the peer would not see the other descriptor close
	if rank == 0 {
		return answered(conn, garbagePMI[0]+"cmd=finalize\n", "finalize_ack")
	}
	return cutOff(conn, rank, garbagePMI[rank])
}

// answered requires an answer that contains a word.
func answered(conn net.Conn, request, word string) error {
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	var got []byte
	for part := make([]byte, 4096); !bytes.Contains(got, []byte(word)); {
		n, err := conn.Read(part)
		if err != nil {
			return fmt.Errorf("after %q: %w", got, err)
		}
		got = append(got, part[:n]...)
	}
	fmt.Println("rank 0 is served")
	return nil
}

// cutOff sends garbage until the server closes the connection.
func cutOff(conn net.Conn, rank int, garbage string) error {
	_, _ = io.WriteString(conn, garbage) // the server may close it at once
	if half, ok := conn.(interface{ CloseWrite() error }); ok && rank == bearable[os.Getenv("INTEROP_KIND")] {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn)
	fmt.Printf("rank %d is cut off\n", rank)
	return errCutOff
}

// dialPMIx connects to the rank's server.
func dialPMIx() (net.Conn, error) {
	_, address, found := strings.Cut(os.Getenv("PMIX_SERVER_URI3"), ";tcp4://")
	if !found {
		return nil, fmt.Errorf("PMIX_SERVER_URI3=%s", os.Getenv("PMIX_SERVER_URI3"))
	}
	return net.Dial("tcp", address)
}

// greetPMIx is the handshake of a client of PMIx 3 and later, which rendezvous/pmix describes.
func greetPMIx(rank int) []byte {
	body := []byte("native\x00")
	body = binary.BigEndian.AppendUint32(body, 8)
	body = binary.NativeEndian.AppendUint32(body, uint32(os.Getuid()))
	body = binary.NativeEndian.AppendUint32(body, uint32(os.Getgid()))
	body = append(append(append(body, 0), os.Getenv("PMIX_NAMESPACE")...), 0)
	body = binary.BigEndian.AppendUint32(body, uint32(rank))
	body = append(body, "4.2.2\x00v3\x00\x01hash\x00"...)
	head := make([]byte, 16)
	binary.NativeEndian.PutUint32(head, 0xffffffff)
	binary.NativeEndian.PutUint32(head[4:], 0xffffffff)
	binary.NativeEndian.PutUint32(head[8:], uint32(len(body)))
	return append(head, body...)
}

// spoilPMIx sends the rank's garbage after a valid handshake.
func spoilPMIx(rank int) error {
	conn, err := dialPMIx()
	if err != nil {
		return err
	}
	if _, err := conn.Write(greetPMIx(rank)); err != nil {
		return err
	}
	reply := make([]byte, 8)
	if _, err := io.ReadFull(conn, reply); err != nil || binary.BigEndian.Uint32(reply) != 0 {
		return fmt.Errorf("handshake: %q, %w", reply, err)
	}
	if rank == 0 { // FINALIZE with tag 100; the reply has the same tag
		return answered(conn, "\x00\x00\x00\x00\x00\x00\x00\x64\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01\x05",
			"\x00\x00\x00\x64")
	}
	return cutOff(conn, rank, garbagePMIx[rank])
}

// knockPMIx connects as a client that knows neither the protocol nor the job.
func knockPMIx(rank int) error {
	conn, err := dialPMIx()
	if err != nil {
		return err
	}
	garbage := "SSH-2.0-scanner\r\n" + strings.Repeat("x", 1<<16)
	if rank == 1 {
		garbage = strings.Replace(string(greetPMIx(rank)), os.Getenv("PMIX_NAMESPACE")[:10], "gorun-1234", 1)
	}
	if err := cutOff(conn, rank, garbage); !errors.Is(err, errCutOff) {
		return err
	}
	return nil
}
