// Package remotetest tests the contract of remote.Host, and runs a real sshd for such tests.
package remotetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
)

// Setup describes an implementation of remote.Host.
type Setup struct {
	// Dial connects to a host whose login shell may be a POSIX shell, fish or csh: the suite's lines mean the same to all.
	Dial func(t *testing.T) remote.Host
	// Noise is the output of the login shell before that of a command.
	Noise []byte
}

// marker is the first output of a command, which separates it from that of the shell.
const marker = "--stream-begins--"

// Contract runs the suite.
func Contract(t *testing.T, setup Setup) {
	for name, test := range map[string]func(*testing.T, remote.Host){
		"bytes pass as they are":     exactBytes,
		"exit codes":                 exitCodes,
		"a signal is no success":     signals,
		"standard error is kept":     standardError,
		"several commands at once":   severalAtOnce,
		"the end of standard input":  endOfInput,
		"Close ends a command":       closeProcess,
		"Close of the host ends all": closeHost,
	} {
		t.Run(name, func(t *testing.T) {
			h := setup.Dial(t)
			defer func() { require.NoError(t, h.Close()) }()
			require.NotEmpty(t, h.Name())
			test(t, h)
		})
	}
	t.Run("what shells say comes before", func(t *testing.T) {
		h := setup.Dial(t)
		defer h.Close()
		p, err := h.Start(t.Context(), "echo "+marker)
		require.NoError(t, err)
		out, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Equal(t, string(setup.Noise)+marker+"\n", string(out))
		require.NoError(t, p.Wait())
	})
}

// begin starts a command and reads up to the marker.
func begin(t *testing.T, h remote.Host, line string) remote.Process {
	t.Helper()
	p, err := h.Start(t.Context(), "echo "+marker+"; "+line)
	require.NoError(t, err)
	var seen bytes.Buffer
	one := make([]byte, 1)
	for !strings.HasSuffix(seen.String(), marker+"\n") {
		_, err := io.ReadFull(p, one)
		require.NoError(t, err, "before the marker: %q, standard error: %q", seen.String(), p.Stderr())
		seen.Write(one)
	}
	return p
}

// everyByte returns all byte values, which a translation of line ends or a terminal would change.
func everyByte(size int) []byte {
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i ^ i>>8)
	}
	return block
}

func exactBytes(t *testing.T, h remote.Host) {
	p := begin(t, h, "exec cat")
	sent := everyByte(10 << 20)
	var writing sync.WaitGroup
	var writeErr error
	writing.Go(func() {
		_, writeErr = p.Write(sent)
		writeErr = errors.Join(writeErr, p.CloseWrite())
	})
	got, err := io.ReadAll(p)
	writing.Wait()
	require.NoError(t, errors.Join(err, writeErr))
	require.True(t, bytes.Equal(sent, got), "%d bytes sent, %d came back, or others", len(sent), len(got))
	require.NoError(t, p.Wait())
}

func exitCodes(t *testing.T, h remote.Host) {
	for _, code := range []int{0, 1, 3, 126, 127, 200} {
		p, err := h.Start(t.Context(), fmt.Sprintf("exit %d", code))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, p)
		require.NoError(t, err)
		err = p.Wait()
		if code == 0 {
			require.NoError(t, err)
			continue
		}
		var ended *remote.ExitError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, code, ended.Code)
		require.NoError(t, p.Close())
	}
}

func signals(t *testing.T, h remote.Host) {
	p := begin(t, h, `exec sh -c 'kill -TERM $$'`)
	_, err := io.Copy(io.Discard, p)
	require.NoError(t, err)
	var ended *remote.ExitError
	require.ErrorAs(t, p.Wait(), &ended)
	require.NotZero(t, ended.Code)
}

func standardError(t *testing.T, h remote.Host) {
	p := begin(t, h, `sh -c 'echo first >&2; head -c 100000 /dev/zero | tr "\0" x >&2; echo last >&2'`)
	_, err := io.Copy(io.Discard, p)
	require.NoError(t, err)
	require.NoError(t, p.Wait())
	require.True(t, strings.HasSuffix(p.Stderr(), "xxlast\n"), "%.40q", p.Stderr())
	require.LessOrEqual(t, len(p.Stderr()), 64<<10)
}

func severalAtOnce(t *testing.T, h remote.Host) {
	var all []remote.Process
	for range 4 {
		all = append(all, begin(t, h, "exec cat"))
	}
	for i, p := range all {
		_, err := fmt.Fprintf(p, "number %d\n", i)
		require.NoError(t, err)
	}
	for i := len(all) - 1; i >= 0; i-- {
		require.NoError(t, all[i].CloseWrite())
		out, err := io.ReadAll(all[i])
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("number %d\n", i), string(out))
		require.NoError(t, all[i].Wait())
	}
}

func endOfInput(t *testing.T, h remote.Host) {
	p := begin(t, h, `exec sh -c 'cat >/dev/null; echo over'`)
	require.NoError(t, p.CloseWrite())
	out, err := io.ReadAll(p)
	require.NoError(t, err)
	require.Equal(t, "over\n", string(out))
	require.NoError(t, p.Wait())
}

func closeProcess(t *testing.T, h remote.Host) {
	p := begin(t, h, "exec cat")
	require.NoError(t, p.Close())
	_, err := io.Copy(io.Discard, p) // comes to an end, with an error or without
	_ = err
	other := begin(t, h, "exit 5")
	_, err = io.Copy(io.Discard, other)
	require.NoError(t, err)
	var ended *remote.ExitError
	require.ErrorAs(t, other.Wait(), &ended, "the host serves other commands")
	require.Equal(t, 5, ended.Code)
}

func closeHost(t *testing.T, h remote.Host) {
	p, q := begin(t, h, "exec cat"), begin(t, h, "exec cat")
	require.NoError(t, h.Close())
	for _, one := range []remote.Process{p, q} {
		_, _ = io.Copy(io.Discard, one)
		require.Error(t, one.Wait())
	}
	_, err := h.Start(t.Context(), "exit 0")
	require.Error(t, err)
}
