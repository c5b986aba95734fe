package process

// StreamKind says what a rank finds behind one of its descriptors 0, 1 and 2.
type StreamKind uint8

const (
	// Null is /dev/null: end-of-file for a reader, silence for a writer.
	Null StreamKind = iota
	// Pipe is a pipe of the rank's own. As 1 or 2 it is read by the rank's
	// spawner and handed to the Sink; as 0 it is fed through Group.Stdin.
	Pipe
	// FD is a descriptor of this process, Stream.FD, which the rank shares.
	FD
	// PTY is the rank's own pseudo-terminal, one for all of its streams of this
	// kind, and its controlling terminal. What the rank writes there comes as
	// stream 1; what it reads there is written through Group.Stdin.
	PTY
)

// Stream is one of a rank's descriptors 0, 1 and 2.
type Stream struct {
	Kind StreamKind
	FD   int // with kind FD
}

// The descriptor numbers of a rank's streams.
const (
	stdin = iota
	stdout
	stderr
	numStreams
)
