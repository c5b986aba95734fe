package registry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Handle is a job that was found.
type Handle struct {
	ID   string
	path string
}

// Find returns the jobs of this user in the places, ordered by id, and removes what
// jobs left there that are gone. Places that there are not, or that may not be read, are
// empty.
func Find(places []string) (found []Handle) {
	for _, place := range places {
		entries, _ := filepath.Glob(filepath.Join(literal.Replace(place), prefix+"*")) // the pattern is good
		for _, path := range entries {
			id := strings.TrimPrefix(filepath.Base(path), prefix)
			known := slices.ContainsFunc(found, func(f Handle) bool { return f.ID == id })
			if isID(id) && !known && alive(path) {
				found = append(found, Handle{id, path})
			}
		}
	}
	slices.SortFunc(found, func(a, b Handle) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// literal makes a path a pattern that only it matches.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// youth is how long a directory may be without a socket whose job is about to make it.
const youth = time.Minute

// alive reports whether somebody listens, and removes what is left of one who is gone.
// What may be another user's is left alone, and nobody there.
func alive(path string) bool {
	dir, err := openPrivate(unix.AT_FDCWD, path)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	conn, err := net.DialTimeout("unix", within(dir, socket), askTime)
	if err == nil {
		_ = conn.Close()
		return true
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
	case errors.Is(err, fs.ErrNotExist) && !young(dir):
	default:
		return errors.Is(err, unix.EAGAIN) // it has much to do
	}
	for _, name := range []string{fresh, socket} {
		_ = unix.Unlinkat(dir, name, 0)
	}
	_ = unix.Rmdir(path) // whatever has that name now: only what is empty and ours to remove goes
	return false
}

func young(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) != nil || time.Since(time.Unix(st.Mtim.Sec, st.Mtim.Nsec)) < youth
}

// Response are the parts of an answer, as they come.
type Response struct {
	// PID is the process that answers, 0: not known.
	PID int

	conn  *net.UnixConn
	read  *bufio.Reader
	limit int // bytes of a part
	stop  func() bool
}

// Do asks a job. The answers end with ctx, at the latest.
func (f Handle) Do(ctx context.Context, question Request) (*Response, error) {
	dir, err := openPrivate(unix.AT_FDCWD, f.path)
	if err != nil {
		return nil, fmt.Errorf("ask job %s: %w", f.ID, gone(err))
	}
	defer unix.Close(dir)
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", within(dir, socket))
	if err != nil {
		return nil, fmt.Errorf("ask job %s: %w", f.ID, gone(err))
	}
	a := &Response{conn: dialed.(*net.UnixConn), read: bufio.NewReader(dialed), limit: maxAnswer}
	if a.PID, err = peer(a.conn); err == nil {
		_ = a.conn.SetWriteDeadline(time.Now().Add(askTime))
		err = writePart(a.conn, question)
	}
	if err != nil {
		_ = a.conn.Close()
		return nil, fmt.Errorf("ask job %s: %w", f.ID, gone(err))
	}
	a.stop = context.AfterFunc(ctx, func() { _ = a.conn.SetDeadline(time.Unix(1, 0)) })
	return a, nil
}

// ErrEnded is a job that has ended meanwhile.
var ErrEnded = errors.New("the job has ended")

func gone(err error) error {
	for _, sign := range []error{
		unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, os.ErrNotExist, io.EOF,
		io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, sign) {
			return ErrEnded
		}
	}
	return err
}

// Next reads the next part into into; io.EOF says that there is none.
func (a *Response) Next(into any) error {
	var line []byte
	for {
		piece, err := a.read.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > a.limit:
			return fmt.Errorf("an answer of more than %d bytes", a.limit)
		case err == nil:
			return json.Unmarshal(line, into)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}

// Close lets go of the job.
func (a *Response) Close() error {
	a.stop()
	return a.conn.Close()
}

// One asks for an answer of one part.
func One[T any](ctx context.Context, f Handle, question Request) (answer T, err error) {
	answer, _, err = OneOf[T](ctx, f, question)
	return answer, err
}

// OneOf does that, and returns the process that answers, or does not; 0: not known.
func OneOf[T any](ctx context.Context, f Handle, question Request) (answer T, pid int, err error) {
	a, err := f.Do(ctx, question)
	if err != nil {
		return answer, 0, err
	}
	defer a.Close()
	if err := a.Next(&answer); err != nil {
		return answer, a.PID, fmt.Errorf("ask job %s: %w", f.ID, gone(err))
	}
	return answer, a.PID, nil
}
