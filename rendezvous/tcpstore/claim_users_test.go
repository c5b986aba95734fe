package tcpstore

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// squat binds names until standard input ends. If there is only one, it listens there with a full backlog and never
// accepts.
func squat(names []string) {
	for _, name := range names {
		fd := try(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
		at := &unix.SockaddrUnix{Name: name}
		if err := unix.Bind(fd, at); err != nil {
			panic(err)
		}
		if len(names) > 1 {
			continue
		}
		if err := unix.Listen(fd, 0); err != nil {
			panic(err)
		}
		for {
			client := try(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))
			if unix.Connect(client, at) != nil {
				break
			}
		}
	}
	fmt.Println("squats")
	untilStdinEnds()
}

// reserveAs reserves a port until standard input ends, or prints the owner of the port.
func reserveAs(args []string) {
	r, err := Reserve("", try(strconv.Atoi(args[0])))
	var taken *PortTakenError
	if errors.As(err, &taken) {
		fmt.Println("taken by", taken.Claimant)
		return
	}
	fmt.Println(os.Getpid(), try(r, err).Addr().Port())
	untilStdinEnds()
}

// freePort returns a port that is free at the moment.
func freePort(t *testing.T) int {
	r, err := Reserve("", 0)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return int(r.Addr().Port())
}

// Another user's sockets neither block a port nor delay its reservation. One listens with a full backlog at the
// name that claims once had; others look like claims.
func TestAnotherUserCannotTakeAClaim(t *testing.T) {
	testneeds.Root(t)
	port := freePort(t)
	prefix := fmt.Sprintf("@gorun/port/%d", port)
	require.Equal(t, "squats", during(t, otherUser, "squat", prefix))
	require.Equal(t, "squats", during(t, otherUser, "squat", prefix+"/1/A", prefix+"/1/B"))
	r, err := Reserve("", port)
	require.NoError(t, err)
	defer r.Close()
	_, err = Reserve("", port)
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, os.Getpid(), taken.Claimant, "the same user's claim counts beside the others")
}

// Claims of this user and of root count, whichever process made them.
func TestClaimsOfOwnUserAndRoot(t *testing.T) {
	testneeds.Root(t)
	port := freePort(t)
	var pid, reserved int
	_, err := fmt.Sscan(during(t, otherUser, "reserve", strconv.Itoa(port)), &pid, &reserved)
	require.NoError(t, err)
	require.Equal(t, port, reserved)
	require.Equal(t, fmt.Sprint("taken by ", pid), does(t, otherUser, "reserve", strconv.Itoa(port)))
	r, err := Reserve("", port)
	require.NoError(t, err, "another user's claim does not count for root")
	defer r.Close()
	port = freePort(t)
	roots, err := Reserve("", port)
	require.NoError(t, err)
	defer roots.Close()
	require.Equal(t, fmt.Sprint("taken by ", os.Getpid()), does(t, otherUser, "reserve", strconv.Itoa(port)))
}
