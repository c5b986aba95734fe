//go:build cgo

package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/comm/internal/backend"
	ncclfake "gorun/comm/internal/nccl/fake"
)

func TestMain(m *testing.M) {
	code := m.Run()
	ncclfake.Remove()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// fake opens the fake libraries.
func fake(t *testing.T, flags ...string) *Library {
	t.Helper()
	folder := ncclfake.Build(t, flags...)
	l, err := openFrom(t, folder, folder)
	require.NoError(t, err)
	return l
}

// openFrom opens the libraries with these paths.
func openFrom(t *testing.T, nccl, runtime string) (*Library, error) {
	t.Helper()
	t.Setenv(VarNCCL, nccl)
	t.Setenv(VarRuntime, runtime)
	return Open()
}

// logged returns a function that reads the calls of the fakes since its last call.
func logged(t *testing.T) func() []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	t.Setenv("FAKE_LOG", file)
	return func() []string {
		text, err := os.ReadFile(file)
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(t, err)
			require.NoError(t, os.Remove(file))
		}
		return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	}
}

// of returns the lines that start with prefix, without it.
func of(lines []string, prefix string) []string {
	var found []string
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, rest)
		}
	}
	return found
}

// round is an all-gather among ranks in goroutines.
type round struct {
	mu    sync.Mutex
	blobs [][]byte
	here  int
	all   chan struct{}
}

func newRound(ranks int) *round {
	return &round{blobs: make([][]byte, ranks), all: make(chan struct{})}
}

func (r *round) exchange(rank int) backend.Exchange {
	return func(ctx context.Context, blob []byte) ([][]byte, error) {
		r.mu.Lock()
		r.blobs[rank] = blob
		if r.here++; r.here == len(r.blobs) {
			close(r.all)
		}
		r.mu.Unlock()
		select {
		case <-r.all:
			return r.blobs, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// each runs do for every rank at the same time and returns the errors.
func each(ranks int, do func(rank int) error) []error {
	errs := make([]error, ranks)
	var wait sync.WaitGroup
	for rank := range ranks {
		wait.Go(func() { errs[rank] = do(rank) })
	}
	wait.Wait()
	return errs
}

// tryGroup joins ranks, each on the GPU with its number.
func tryGroup(ctx context.Context, l *Library, ranks int, change func(*Config)) ([]*Backend, []error) {
	group, meeting := make([]*Backend, ranks), newRound(ranks)
	errs := each(ranks, func(rank int) (err error) {
		c := Config{Rank: rank, Ranks: ranks, Device: rank, Timeout: time.Minute, Exchange: meeting.exchange(rank)}
		if change != nil {
			change(&c)
		}
		group[rank], err = l.Join(ctx, c)
		return err
	})
	return group, errs
}

// group joins ranks and closes them when the test ends.
func group(t *testing.T, l *Library, ranks int, change func(*Config)) []*Backend {
	t.Helper()
	group, errs := tryGroup(t.Context(), l, ranks, change)
	require.NoError(t, errors.Join(errs...))
	t.Cleanup(func() {
		require.NoError(t, errors.Join(each(ranks, func(rank int) error { return group[rank].Close() })...))
	})
	return group
}

// run makes each rank's call on every rank.
func run(t *testing.T, group []*Backend, call func(rank int) *backend.Call) {
	t.Helper()
	require.NoError(t, errors.Join(each(len(group), func(rank int) error {
		return group[rank].Run(t.Context(), call(rank))
	})...))
}
