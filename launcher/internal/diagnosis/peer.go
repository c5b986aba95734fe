package diagnosis

import (
	"slices"
	"strings"
)

// peerLines is the number of last lines that are searched.
const peerLines = 5

// PeerLost reports whether a rank's last lines complain about a lost connection. Such a rank may be a victim: its peer
// failed first but took longer to end.
func PeerLost(lines []string) bool {
	return slices.ContainsFunc(lines[max(0, len(lines)-peerLines):], func(line string) bool {
		line = clean(line)
		return slices.ContainsFunc(peerLost, func(text string) bool { return strings.Contains(line, text) })
	})
}

// peerLost are messages of the C library, Python and Go, of Gloo (gloo/transport/tcp/pair.cc), NCCL
// (ncclGetErrorString) and PyTorch's store.
var peerLost = []string{
	"Connection reset by peer", "connection reset by peer", "ConnectionResetError",
	"Connection closed by peer", "Broken pipe", "BrokenPipeError", "broken pipe",
	"ncclRemoteError", "remote process exited or there was a network error",
	"failed to recv, got 0 bytes", "Failed to recv, got 0 bytes",
	"ConnectionRefusedError", "Connection refused", "connection refused",
}
