// Package wire has the frames that head and agent exchange over one byte stream, the same for an agent in this process
// and for one on another host.
//
//	head                        agent
//	  | -- Hello{needs} ---------> |
//	  | <-- Facts{machine} ------- |
//	  | -- Check{files} ---------> |   only if hosts are checked and nothing is started
//	  | <-- Checked{host} -------- |
//	  | -- Probe{targets} -------> |   several nodes only, a few times: find addresses that all can reach
//	  | <-- Reached{answers} ----- |
//	  | -- Open{store} ----------> |   node 0 only
//	  | <-- Opened{address} ------ |
//	  | -- Start{rows} ----------> |   all decisions are made
//	  | <-- Running{pids} -------- |   or StartFailed
//	  | <-- Output, Ended -------- |   Credit for output goes down
//	  | -- Signal, Stdin, Kill --> |
//	  | <-- Signalled ------------ |   a resource manager has sent a signal to agent and ranks
//	  | <-- MPIEvent ------------- |   MPI_Abort, or ranks that wait for one that has ended
//	  | <-- Spawn ---------------- |   MPI_Comm_spawn
//	  | -- Grow{rows} -----------> |   every node gets the new world, and starts its ranks of it
//	  | <-- Grown{pids} ---------- |
//	  | -- Spawned --------------> |
//	  | <-- Exchange ------------> |   between MPI's servers on different nodes; see rendezvous/exchange
//	  | -- Usage ----------------> |   for gorun ps, top and stacks
//	  | <-- Used{ranks} ---------- |
//	  | -- Cleanup{grace} -------> |   all ranks have ended: end their orphans
//	  | <-- CleanedUp ------------ |   no process of the job is left, all output is sent
//
// With an agent on another host, Ping and Pong pass all the while: a side that receives nothing for a lease takes the
// other for lost.
//
// A frame is
//
//	0        4     5       8
//	| length | type | zero | body …
//
// where length is the size of the body in bytes, at most MaxBody, little-endian. Control bodies are the structs of
// this package, which codec.go encodes; bodies of Output and Stdin are a stream header and raw bytes. Both sides have
// the same version: any change of a type makes a new one. The table in authority.go has the peers, states and sizes of
// each type; any other frame ends the connection.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Version is sent by Hello and answered by Facts. It changes with every type of a frame.
const Version = 20

const (
	// MaxBody bounds a body; a longer one is from a broken or hostile peer. Most types have less.
	MaxBody = 64 << 20
	// maxOutput bounds the bytes of a stream in one frame.
	maxOutput = 1 << 20
	// headerSize is the size of a frame's header in bytes.
	headerSize = 8
	// streamHeader is the size of a rank (u32) and a stream (u8) before raw bytes.
	streamHeader = 5
)

// Type is what a frame's body is.
type Type uint8

const (
	TypeHello Type = iota + 1
	TypeFacts
	TypeOpen
	TypeOpened
	TypeStart
	TypeRunning
	TypeStartFailed
	TypeOutput
	TypeCredit
	TypeEnded
	TypeSignal
	TypeStdin
	TypeKill
	TypeCleanup
	TypeCleanedUp
	TypeNotice
	TypeResize
	TypeStalled
	TypeHung
	TypeSuspend
	TypePing
	TypePong
	TypeInspect
	TypeProbe
	TypeReached
	TypeJobEnded
	TypeCheck
	TypeChecked
	TypeSignalled
	TypeOutputLost
	TypeExchange
	TypeMPI
	TypeSpawn
	TypeSpawned
	TypeGrow
	TypeGrown
	TypeUsage
	TypeUsed
	TypeWarm

	numTypes // behind the last
)

var typeNames = [...]string{
	TypeHello:       "hello",
	TypeFacts:       "facts",
	TypeOpen:        "open",
	TypeOpened:      "opened",
	TypeStart:       "start",
	TypeRunning:     "running",
	TypeStartFailed: "start-failed",
	TypeOutput:      "output",
	TypeCredit:      "credit",
	TypeEnded:       "ended",
	TypeSignal:      "signal",
	TypeStdin:       "stdin",
	TypeKill:        "kill",
	TypeCleanup:     "cleanup",
	TypeCleanedUp:   "cleaned-up",
	TypeNotice:      "notice",
	TypeResize:      "resize",
	TypeStalled:     "stalled",
	TypeHung:        "hung",
	TypeSuspend:     "suspend",
	TypePing:        "ping",
	TypePong:        "pong",
	TypeInspect:     "inspect",
	TypeProbe:       "probe",
	TypeReached:     "reached",
	TypeJobEnded:    "job-ended",
	TypeCheck:       "check",
	TypeChecked:     "checked",
	TypeSignalled:   "signalled",
	TypeOutputLost:  "output-lost",
	TypeExchange:    "exchange",
	TypeMPI:         "mpi",
	TypeSpawn:       "spawn",
	TypeSpawned:     "spawned",
	TypeGrow:        "grow",
	TypeGrown:       "grown",
	TypeUsage:       "usage",
	TypeUsed:        "used",
	TypeWarm:        "warm",
}

// String returns the type's name, for messages.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// isControl reports whether frames of the type carry a message and not bytes of a stream.
func (t Type) isControl() bool { return t != TypeOutput && t != TypeStdin }

// Frame is one message. Body is valid until the next Read of its Reader.
type Frame struct {
	Type Type
	Body []byte
}

// Decode reads a control frame's body into m, whose type is the frame's. Of a Hello or Facts of another version only
// the version may be right.
func (f Frame) Decode(m Message) error {
	err := readMessage(f.Body, m)
	switch m := m.(type) {
	case *Hello:
		if m.Version != Version {
			return nil
		}
	case *Facts:
		if m.Version != Version {
			return nil
		}
	case *Start:
		if err == nil {
			err = m.complete()
		}
	}
	if err != nil {
		return fmt.Errorf("wire: %s frame: %w", f.Type, err)
	}
	return nil
}

func appendHeader(b []byte, t Type, size int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	return append(b, byte(t), 0, 0, 0)
}

// AppendControl appends a control frame with m as its body.
func AppendControl(b []byte, m Message) []byte {
	at := len(b)
	b = appendMessage(appendHeader(b, m.Type(), 0), m)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-headerSize))
	return b
}

// AppendOutput appends an Output frame: bytes that a rank wrote to a stream (1 or 2).
func AppendOutput(b []byte, rank, stream int, p []byte) []byte {
	return appendStream(b, TypeOutput, rank, stream, p)
}

// AppendStdin appends a Stdin frame: bytes for a rank's standard input, or its end if none exist.
func AppendStdin(b []byte, rank int, p []byte) []byte {
	return appendStream(b, TypeStdin, rank, 0, p)
}

func appendStream(b []byte, t Type, rank, stream int, p []byte) []byte {
	b = appendHeader(b, t, streamHeader+len(p))
	b = binary.LittleEndian.AppendUint32(b, uint32(rank))
	b = append(b, byte(stream))
	return append(b, p...)
}

// Stream reads the body of an Output or Stdin frame.
func (f Frame) Stream() (rank, stream int, p []byte, err error) {
	if len(f.Body) < streamHeader {
		return 0, 0, nil, fmt.Errorf("wire: %s frame of %d bytes: too short for its stream header", f.Type, len(f.Body))
	}
	rank = int(int32(binary.LittleEndian.Uint32(f.Body)))
	return rank, int(f.Body[4]), f.Body[streamHeader:], nil
}

// Reader reads frames from a byte stream.
type Reader struct {
	r    io.Reader
	head [headerSize]byte
	body []byte
	last Type // of the frame with that body
	// admit accepts or refuses a frame by its header; nil accepts all.
	admit func(t Type, size int) error
}

// NewReader reads frames from r, which should be buffered if reads are expensive.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read returns the next frame; the next call overwrites its body. A stream that ends between frames gives io.EOF, one
// that ends inside a frame io.ErrUnexpectedEOF.
func (r *Reader) Read() (Frame, error) {
	if r.last.isControl() && cap(r.body) > keptControl {
		r.body = nil
	}
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		return Frame{}, err
	}
	t, size := Type(r.head[4]), binary.LittleEndian.Uint32(r.head[:])
	if size > MaxBody || t == 0 || r.head[5]|r.head[6]|r.head[7] != 0 {
		return Frame{}, fmt.Errorf("wire: not a frame: % x", r.head[:])
	}
	if r.admit != nil {
		if err := r.admit(t, int(size)); err != nil {
			return Frame{}, err
		}
	}
	err := r.readBody(int(size))
	r.last = t
	return Frame{t, r.body}, err
}

// readBody grows the buffer with the bytes that arrive, not by the announced length.
func (r *Reader) readBody(size int) error {
	const step = 1 << 20
	r.body = r.body[:0]
	for len(r.body) < size {
		n := min(size-len(r.body), step)
		have := len(r.body)
		r.body = slices.Grow(r.body, n)[:have+n]
		if _, err := io.ReadFull(r.r, r.body[have:]); err == io.EOF {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
	}
	return nil
}
