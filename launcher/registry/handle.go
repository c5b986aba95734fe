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

// Handle identifies a running job.
type Handle struct {
	ID   string
	path string
}

// Find returns the jobs of this user in the places, ordered by id, and removes the directories of dead ones. It ignores
// places that do not exist or cannot be read.
func Find(places []string) (found []Handle) {
	for _, place := range places {
		entries, _ := filepath.Glob(filepath.Join(escape.Replace(place), prefix+"*")) // the pattern is valid
		for _, path := range entries {
			id := strings.TrimPrefix(filepath.Base(path), prefix)
			known := slices.ContainsFunc(found, func(h Handle) bool { return h.ID == id })
			if isID(id) && !known && isAlive(path) {
				found = append(found, Handle{id, path})
			}
		}
	}
	slices.SortFunc(found, func(a, b Handle) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// escape makes a path a pattern that matches only the path.
var escape = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// startTimeout is how long a directory may lack a socket that a starting job is about to make.
const startTimeout = time.Minute

// isAlive reports whether a server listens, and removes the directory of a dead one. It leaves directories alone
// that may
// be another user's.
func isAlive(path string) bool {
	dir, err := openPrivate(unix.AT_FDCWD, path)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	conn, err := net.DialTimeout("unix", pathIn(dir, socket), requestTimeout)
	if err == nil {
		_ = conn.Close()
		return true
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
	case errors.Is(err, fs.ErrNotExist) && !isStarting(dir):
	default:
		return errors.Is(err, unix.EAGAIN) // its queue is full
	}
	for _, name := range []string{newSocket, socket} {
		_ = unix.Unlinkat(dir, name, 0)
	}
	_ = unix.Rmdir(path) // removes only an empty directory of this user
	return false
}

func isStarting(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) != nil || time.Since(time.Unix(st.Mtim.Sec, st.Mtim.Nsec)) < startTimeout
}

// Response reads the parts of a response as they arrive.
type Response struct {
	// PID is the server's process, 0 if unknown.
	PID int

	conn  *net.UnixConn
	read  *bufio.Reader
	limit int // bytes of a part
	stop  func() bool
}

// Do sends a request to a job. The response ends with ctx at the latest.
func (h Handle) Do(ctx context.Context, request Request) (*Response, error) {
	dir, err := openPrivate(unix.AT_FDCWD, h.path)
	if err != nil {
		return nil, fmt.Errorf("query job %s: %w", h.ID, orEnded(err))
	}
	defer unix.Close(dir)
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", pathIn(dir, socket))
	if err != nil {
		return nil, fmt.Errorf("query job %s: %w", h.ID, orEnded(err))
	}
	r := &Response{conn: dialed.(*net.UnixConn), read: bufio.NewReader(dialed), limit: maxPart}
	if r.PID, err = peerPID(r.conn); err == nil {
		_ = r.conn.SetWriteDeadline(time.Now().Add(requestTimeout))
		err = writePart(r.conn, request)
	}
	if err != nil {
		_ = r.conn.Close()
		return nil, fmt.Errorf("query job %s: %w", h.ID, orEnded(err))
	}
	r.stop = context.AfterFunc(ctx, func() { _ = r.conn.SetDeadline(time.Unix(1, 0)) })
	return r, nil
}

// ErrEnded reports a job that has ended meanwhile.
var ErrEnded = errors.New("the job has ended")

// orEnded replaces errors of a lost connection with ErrEnded.
func orEnded(err error) error {
	for _, lost := range []error{
		unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, os.ErrNotExist, io.EOF, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, lost) {
			return ErrEnded
		}
	}
	return err
}

// Next decodes the next part into a pointer; io.EOF is the end.
func (r *Response) Next(into any) error {
	var line []byte
	for {
		piece, err := r.read.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > r.limit:
			return fmt.Errorf("an answer of more than %d bytes", r.limit)
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

// Close closes the connection.
func (r *Response) Close() error {
	r.stop()
	return r.conn.Close()
}

// Get sends a request whose response is one part. pid is the server's process, even if it does not respond; 0 if
// unknown.
func Get[T any](ctx context.Context, h Handle, request Request) (part T, pid int, err error) {
	r, err := h.Do(ctx, request)
	if err != nil {
		return part, 0, err
	}
	defer r.Close()
	if err := r.Next(&part); err != nil {
		return part, r.PID, fmt.Errorf("query job %s: %w", h.ID, orEnded(err))
	}
	return part, r.PID, nil
}
