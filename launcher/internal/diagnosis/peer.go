package diagnosis

// peerLines is among how many last lines a complaint of a peer is looked for.
const peerLines = 5

// PeerLost reports whether a rank's last lines complain of another process that
// went away in the middle of a conversation. Such a rank may be a victim: its peer
// closed its connections on the way to an end that takes longer.
func PeerLost(lines []string) bool {
	if len(lines) > peerLines {
		lines = lines[len(lines)-peerLines:]
	}
	for _, line := range lines {
		if has(clean(line), peerLost...) {
			return true
		}
	}
	return false
}

// peerLost are the words of the C library, Python and Go, of Gloo
// (gloo/transport/tcp/pair.cc), NCCL (ncclGetErrorString) and PyTorch's store.
var peerLost = []string{
	"Connection reset by peer", "connection reset by peer", "ConnectionResetError",
	"Connection closed by peer", "Broken pipe", "BrokenPipeError", "broken pipe",
	"ncclRemoteError", "remote process exited or there was a network error",
	"failed to recv, got 0 bytes", "Failed to recv, got 0 bytes",
	"ConnectionRefusedError", "Connection refused", "connection refused",
}
