package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// began has a long command line.
var began = `{"kind":"record","started_at":"2026-11-29T00:00:%02dZ","command":["` + strings.Repeat("x", endSize) +
	"\"]}\n"

// keep makes the record of a job that ended that many minutes ago.
func keep(t *testing.T, records, id string, minutes int, more string) {
	f, err := Create(records, id)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, began+"%s", 59-minutes%60, more)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	at := time.Now().Add(-time.Duration(minutes) * time.Minute)
	require.NoError(t, os.Chtimes(f.Name(), at, at))
}

func TestPrune(t *testing.T) {
	records := filepath.Join(t.TempDir(), "gorun", "jobs")
	running, err := Create(records, "running")
	require.NoError(t, err)
	defer running.Close()
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(running.Name(), old, old))
	for i := range MaxJobs + slack {
		keep(t, records, fmt.Sprintf("job%02d", i), i, "")
	}
	left := func() int {
		entries, err := os.ReadDir(records)
		require.NoError(t, err)
		return len(entries)
	}
	require.NoError(t, os.RemoveAll(Dir(records, "job59")))
	Prune(records, true)
	require.Equal(t, MaxJobs+slack, left())
	Prune(records, false)
	require.Equal(t, MaxJobs+1, left(), "also one that runs")
	require.NoDirExists(t, Dir(records, "job50"))

	evidence := filepath.Join(Dir(records, "job03"), "evidence")
	require.NoError(t, os.Mkdir(evidence, 0o700))
	require.NoError(t, os.Truncate(create(t, filepath.Join(evidence, "core")), MaxBytes))
	Prune(records, false)
	require.Equal(t, MaxJobs, left())
	require.NoDirExists(t, evidence)
	Prune(filepath.Join(records, "none"), false)
}

func create(t *testing.T, name string) string {
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	return name
}

func TestList(t *testing.T) {
	records := t.TempDir()
	keep(t, records, "killed", 2, "")
	const end = `{"kind":"printed","lines":[]}` + "\n" + `{"kind":"event","event":"job ended","text":"done"}` + "\n"
	keep(t, records, "ended", 1, end)
	keep(t, records, "cut", 3, `{"kind":"printed","li`)
	require.NoError(t, os.Mkdir(Dir(records, "empty"), 0o700))
	require.NoError(t, os.Mkdir(Dir(records, "other"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(Dir(records, "other"), fileName), []byte("\x00[{\n"), 0o600))
	f, err := Create(records, "running")
	require.NoError(t, err)
	defer f.Close()
	_, err = fmt.Fprintf(f, began, 59)
	require.NoError(t, err)

	var states []string
	list := List(records)
	for _, r := range list {
		states = append(states, fmt.Sprintf("%s %t %t", r.ID, r.Running, r.End != nil))
	}
	require.Equal(t, []string{"running true false", "ended false true", "killed false false", "cut false false"}, states)
	require.JSONEq(t, `{"kind":"printed","lines":[]}`, string(list[1].Lines("printed")[0]))
	require.Nil(t, list[3].Lines("printed"))
	_, err = Create("", "id")
	require.Error(t, err)
	_, err = Create(records, "ended")
	require.ErrorIs(t, err, os.ErrExist, "no job writes another one's record")
}

// A job that has made its file locks it later, and then writes.
func TestListWhileAJobBegins(t *testing.T) {
	records := t.TempDir()
	file := filepath.Join(records, "job", fileName)
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, unix.Mkfifo(file, 0o600))
	listed := make(chan []Record)
	go func() { listed <- List(records) }()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(strings.Repeat(" ", endSize)) // more than a pipe takes: List has begun to read
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, err = fmt.Fprintf(f, began, 1)
	require.NoError(t, err)
	list := <-listed
	require.Len(t, list, 1)
	require.True(t, list[0].Running)
}

func TestStream(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	s := new(Stream)
	line := func(text string) { s.Add(func(w io.Writer) error { _, err := io.WriteString(w, text); return err }) }
	line("one\n")
	s.Start(func() (io.WriteCloser, error) { return write, nil })
	line("two\n")
	text := make([]byte, 8)
	_, err = io.ReadFull(read, text)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(text))

	line(strings.Repeat("x", 1<<20)) // more than the pipe takes
	require.ErrorIs(t, s.Close(time.Millisecond), ErrSlow)
	require.NoError(t, read.Close())

	s = new(Stream)
	broken := errors.New("broken")
	s.Start(func() (io.WriteCloser, error) { return nil, broken })
	line("three")
	require.ErrorIs(t, s.Close(time.Minute), broken)
}
