//go:build cgo

package cpu_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/comm/internal/cpu"
	"gorun/internal/testneeds"
)

// forged changes the data that every rank reads from the store, in exchange number, counted from 1. It simulates an
// attacker with access to the store.
func forged(c *cpu.Config, number int, change func(blobs [][]byte)) {
	exchange, round := c.Exchange, 0
	c.Exchange = func(ctx context.Context, blob []byte) ([][]byte, error) {
		blobs, err := exchange(ctx, blob)
		if round++; err == nil && round == number {
			blobs = slices.Clone(blobs)
			change(blobs)
		}
		return blobs, err
	}
}

// withField returns the card with one field replaced.
func withField(blob []byte, name string, value any) []byte {
	var card map[string]any
	if err := json.Unmarshal(blob, &card); err != nil {
		panic(err)
	}
	card[name] = value
	blob, err := json.Marshal(card)
	if err != nil {
		panic(err)
	}
	return blob
}

// Forged cards that claim a key do not replace a key.
func TestForgedCardsAreNoKey(t *testing.T) {
	t.Parallel()
	_, errs := group(t, "ab", func(c *cpu.Config) {
		c.Key = nil
		forged(c, 1, func(blobs [][]byte) {
			for rank, blob := range blobs {
				blobs[rank] = withField(blob, "Key", "00112233445566778899aabbccddeeff")
			}
		})
	})
	for _, err := range errs {
		assert.ErrorContains(t, err,
			"the store does not give back what this rank said about itself: do other processes write to it?")
	}
	_, errs = group(t, "ab", func(c *cpu.Config) {
		c.Key = nil
		forged(c, 1, func(blobs [][]byte) {
			blobs[1-c.Rank] = withField(blobs[1-c.Rank], "Key", "00112233445566778899aabbccddeeff")
		})
	})
	for rank, err := range errs {
		assert.ErrorContains(t, err, fmt.Sprintf("rank %d brought no key", rank))
	}
}

// Cards are validated before use.
func TestForgedCards(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(blob []byte) []byte{
		`rank 1 says that it listens at "/run/user/0/agent.sock", ` +
			`which is no socket of gorun/comm`: func(blob []byte) []byte {
			return withField(blob, "Socket", "/run/user/0/agent.sock")
		},
		`rank 1 says that it listens at "@gorun-comm-1234"`: func(blob []byte) []byte {
			return withField(blob, "Socket", "@gorun-comm-1234")
		},
		"what rank 1 says about itself has ": func(blob []byte) []byte {
			return withField(blob, "Note", strings.Repeat("x", 1<<20))
		},
		"what rank 1 says about itself: ": func([]byte) []byte { return []byte("[]") },
	} {
		_, errs := group(t, "a", func(c *cpu.Config) {
			c.Ranks = 2
			c.Exchange = func(_ context.Context, blob []byte) ([][]byte, error) {
				return [][]byte{blob, change(bytes.Clone(blob))}, nil
			}
		})
		assert.ErrorContains(t, errs[0], want)
	}
}

// Ranks dial only addresses that a host can have.
func TestForgedAddresses(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		`["192.0.2.1:80"]`: "its address 192.0.2.1:80 cannot be reached from other hosts",
		`["node7:80"]`:     "its address: ",
		`["127.0.0.1:0"]`:  "its address 127.0.0.1:0 cannot be reached",
		`["/run/x.sock"]`:  "its address: ",
		`["127.0.0.1:1"` + strings.Repeat(`,"127.0.0.1:1"`, 64) + `]`: "it says that it has 65 addresses, more than 64",
	} {
		_, errs := group(t, "ab", func(c *cpu.Config) {
			forged(c, 2, func(blobs [][]byte) { blobs[1-c.Rank] = []byte(said) })
		})
		for rank, err := range errs {
			assert.ErrorContains(t, err, fmt.Sprintf("rank %d: %s", 1-rank, want))
		}
	}
}

// socketVariable turns this test binary into another user's process, which connects to a socket of the ranks.
const socketVariable = "CPU_TEST_SOCKET"

// TestOtherUser is the entry point of another user's process, which requests the ranks' memory.
func TestOtherUser(*testing.T) {
	socket := os.Getenv(socketVariable)
	if socket == "" {
		return
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socket})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	conn.Write([]byte{1, 0, 0, 0}) // local rank 1
	data, rights := make([]byte, 16), make([]byte, unix.CmsgSpace(16))
	n, size, _, _, _ := conn.ReadMsgUnix(data, rights)
	fmt.Println("bytes:", n > 0, "descriptors:", size > 0)
	os.Exit(0)
}

// Another user that knows the socket of the lowest rank and connects first gets no memory and takes no rank's slot.
func TestAnotherUserGetsNoMemory(t *testing.T) {
	testneeds.Root(t)
	_, errs := group(t, "aa", func(c *cpu.Config) {
		if c.Rank != 1 {
			return
		}
		forged(c, 1, func(blobs [][]byte) { // before rank 1 continues
			var card struct{ Socket string }
			assert.NoError(t, json.Unmarshal(blobs[0], &card))
			other := exec.Command("/proc/self/exe", "-test.run=^TestOtherUser$")
			other.Env, other.Dir = append(os.Environ(), socketVariable+"="+card.Socket), "/"
			other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
			said, err := other.CombinedOutput()
			assert.NoError(t, err, "%s", said)
			assert.Equal(t, "bytes: false descriptors: false\n", string(said))
		})
	})
	require.NoError(t, errors.Join(errs...))
}
