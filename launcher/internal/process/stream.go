package process

// StreamKind is the kind of a rank's descriptor 0, 1 or 2.
type StreamKind uint8

const (
	// Null is /dev/null.
	Null StreamKind = iota
	// Pipe is a pipe per rank and stream. The spawner reads 1 and 2 and passes them to the Sink; write to 0 with
	// Group.Stdin.
	Pipe
	// FD is a duplicate of this process's descriptor Stream.FD.
	FD
	// PTY is a pseudo-terminal per rank, shared by its streams of this kind, and its controlling terminal. Output
	// arrives as stream 1; write input with Group.Stdin.
	PTY
)

// Stream describes one of a rank's descriptors 0, 1 and 2.
type Stream struct {
	Kind StreamKind
	FD   int // for kind FD
}

// Descriptor numbers of a rank's streams.
const (
	stdin = iota
	stdout
	stderr
	numStreams
)
