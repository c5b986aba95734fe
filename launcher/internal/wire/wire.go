// Package wire is what head and agent say to each other: frames over one byte
// stream, the same for an agent in this process and for one on another host.
//
//	head                        agent
//	  | -- Hello{needs} ---------> |
//	  | <-- Facts{machine} ------- |   what this node has
//	  | -- Check{files} ---------> |   only where hosts are checked and nothing is started
//	  | <-- Checked{host} - ------ |
//	  | -- Probe{targets} -------> |   several nodes only: who reaches whom, a few times
//	  | <-- Reached{answers} ----- |
//	  | -- Open{wish} -----------> |   node 0 only: the store
//	  | <-- Opened{address} ------ |
//	  | -- Start{rows} ----------> |   all decisions made
//	  | <-- Running{pids} -------- |   or StartFailed
//	  | <-- Output, Ended -------- |   credit for output flows down
//	  | -- Signal, Stdin, Kill --> |
//	  | <-- Signalled ------------ |   a resource manager has sent a signal to agent and ranks
//	  | <-- MPIEvent ------------- |   MPI_Abort, or ranks that wait for one which has ended
//	  | <-- Spawn ---------------- |   MPI_Comm_spawn
//	  | -- Grow{rows} -----------> |   every node hears of the new world, and starts its ranks of it
//	  | <-- Grown{pids} ---------- |
//	  | -- Spawned --------------> |
//	  | <-- Exchange ------------> |   what servers of MPI's ranks say to those of other nodes; see rendezvous/exchange
//	  | -- Usage ----------------> |   somebody looks at the job (gorun ps, top, stacks)
//	  | <-- Used{ranks} ---------- |
//	  | -- Cleanup{grace} -------> |   all ranks are gone: sweep what they left
//	  | <-- CleanedUp ------------ |   nothing of the job is left, all output sent
//
// With an agent on another host Ping and Pong pass all the while: who is not heard
// of for a lease is taken for lost, by either side.
//
// A frame is
//
//	0        4     5      6      8
//	| length | type | zero | node | body …
//
// with length the size of the body in bytes, at most MaxBody, and node the
// number of the agent that the frame concerns, both little-endian. Control
// bodies are the structs of this package, as codec.go writes any of them; Output and Stdin bodies
// start with a stream header and carry raw bytes. Both sides are of one version: any change of a
// type is a new one. Which frames may come when, from whom and how large stands in authority.go;
// any other ends the connection.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Version is spoken by Hello and answered by Facts. It changes with every type that passes.
const Version = 5

// MaxBody bounds a body; a longer one is a broken or hostile peer. Most types have less.
const MaxBody = 64 << 20

// maxOutput bounds the bytes of a stream in one frame; more takes several.
const maxOutput = 1 << 20

// headerSize is the size of a frame's header in bytes.
const headerSize = 8

// Type tells what a frame's body is.
type Type uint8

// The types, in the order in which a job meets them.
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
}

// String returns the type's name, for messages.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// isControl reports whether frames of the type are rare, and no bytes of a stream.
func (t Type) isControl() bool { return t != TypeOutput && t != TypeStdin }

// Frame is one message. Body is valid until the next Read of the Reader it
// came from.
type Frame struct {
	Type Type
	Node uint16
	Body []byte
}

// Decode reads a control frame's body into m, whose type is the frame's. Hello and Facts of another
// version may have nothing right but that.
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

// Append appends the frame's bytes to b.
func (f Frame) Append(b []byte) []byte {
	b = appendHeader(b, f.Type, f.Node, len(f.Body))
	return append(b, f.Body...)
}

func appendHeader(b []byte, t Type, node uint16, size int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = append(b, byte(t), 0)
	return binary.LittleEndian.AppendUint16(b, node)
}

// AppendControl appends a control frame with m as its body.
func AppendControl(b []byte, node uint16, m Message) []byte {
	at := len(b)
	b = appendMessage(appendHeader(b, m.Type(), node, 0), m)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-headerSize))
	return b
}

// AppendOutput appends an Output frame: bytes that a rank wrote to a stream
// (1 or 2).
func AppendOutput(b []byte, node uint16, rank, stream int, p []byte) []byte {
	return appendStream(b, TypeOutput, node, rank, stream, p)
}

// AppendStdin appends a Stdin frame: bytes for a rank's standard input; no bytes
// are its end.
func AppendStdin(b []byte, node uint16, rank int, p []byte) []byte {
	return appendStream(b, TypeStdin, node, rank, 0, p)
}

// streamHeader is the rank (u32) and the stream (u8) before raw bytes.
const streamHeader = 5

func appendStream(b []byte, t Type, node uint16, rank, stream int, p []byte) []byte {
	b = appendHeader(b, t, node, streamHeader+len(p))
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
	last Type // of the frame whose body that is
	// admit says of a header whether its frame may come; nil: any may.
	admit func(t Type, size int) error
}

// NewReader reads frames from r, which should be buffered if reads are dear.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read returns the next frame; its body is overwritten by the call after.
// A stream that ends between frames gives io.EOF, one that ends inside a frame
// io.ErrUnexpectedEOF.
func (r *Reader) Read() (Frame, error) {
	if r.last.isControl() && cap(r.body) > keptControl {
		r.body = nil
	}
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		return Frame{}, err
	}
	f, size := Frame{Type: Type(r.head[4]), Node: binary.LittleEndian.Uint16(r.head[6:])},
		binary.LittleEndian.Uint32(r.head[:])
	if size > MaxBody || r.head[5] != 0 || f.Type == 0 {
		return Frame{}, fmt.Errorf("wire: not a frame: % x", r.head[:])
	}
	if r.admit != nil {
		if err := r.admit(f.Type, int(size)); err != nil {
			return Frame{}, err
		}
	}
	err := r.readBody(int(size))
	f.Body, r.last = r.body, f.Type
	return f, err
}

// readBody grows the buffer with the bytes that came, not with the length that
// was announced.
func (r *Reader) readBody(size int) error {
	const step = 1 << 20
	r.body = r.body[:0]
	for len(r.body) < size {
		n := min(size-len(r.body), step)
		have := len(r.body)
		r.body = slices.Grow(r.body, n)[:have+n]
		if _, err := io.ReadFull(r.r, r.body[have:]); err != nil {
			return noEOF(err)
		}
	}
	return nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
