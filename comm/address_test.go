package comm_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
)

// neighbour is a rank that has only its rank number. It joins two groups, one after the other.
func neighbour() int {
	for range 2 {
		g, err := comm.Join(context.Background(), comm.WithTimeout(patience))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		sum := []int64{int64(g.Rank() + 1)}
		err = comm.AllReduce(context.Background(), g, sum, sum, comm.Sum)
		fmt.Println(g.Rank(), g.Size(), sum[0], err, g.Close())
	}
	return 0
}

// Children of one process find each other without an address.
func TestNeighboursMeet(t *testing.T) {
	unset(t)
	self, err := os.Executable()
	require.NoError(t, err)
	neighbours(t, exec.Command(self), exec.Command(self), exec.Command(self))
}

// neighbours runs each command as a rank with mpiexec's variables. The ranks meet twice and add up their rank and 1.
func neighbours(t *testing.T, commands ...*exec.Cmd) {
	t.Helper()
	size, sum := len(commands), 0
	ranks := make([]*process, size)
	for rank, cmd := range commands {
		cmd.Env = append(os.Environ(), roleVariable+"=neighbour", fmt.Sprint("PMI_RANK=", rank),
			fmt.Sprint("PMI_SIZE=", size))
		cmd.Stderr = os.Stderr
		ranks[rank] = run(t, rank, cmd)
		sum += rank + 1
	}
	for rank, p := range ranks {
		for range 2 {
			line, err := p.output.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d %d %d <nil> <nil>\n", rank, size, sum), line)
		}
		require.NoError(t, p.cmd.Wait())
	}
}

// Ranks on several hosts have no common parent: the error says which variables to set.
func TestNeighboursOfSeveralHosts(t *testing.T) {
	unset(t)
	for name, value := range map[string]string{
		"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
		"OMPI_COMM_WORLD_LOCAL_SIZE": "2",
	} {
		t.Setenv(name, value)
	}
	_, err := comm.Join(t.Context())
	require.ErrorContains(t, err, "the launcher says nothing about where the 4 ranks of several hosts can meet: "+
		"give all of them MASTER_ADDR, rank 0's host, and MASTER_PORT, a free port there")
}

// flaky fails once, as for lack of descriptors.
type flaky struct {
	net.Listener
	sync.Once
}

func (f *flaky) Accept() (c net.Conn, err error) {
	f.Do(func() { err = syscall.EMFILE })
	if err == nil {
		c, err = f.Listener.Accept()
	}
	return c, err
}

func TestAddressAfterAFailedAccept(t *testing.T) {
	name := "@gorun-test-" + rand.Text()
	l, err := net.Listen("unix", name)
	require.NoError(t, err)
	defer comm.AnswerAt(&flaky{Listener: l}, "127.0.0.1:7")()
	address, err := comm.AskAddress(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7", address)
}
