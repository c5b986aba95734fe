package join

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Protocol is the version of the messages here. It changes when an older peer could
// no longer follow.
const Protocol = 1

// magic begins each message; on plain TCP it is what tells a node.
const magic = "gorun"

// maxMessage bounds a message's JSON in bytes.
const maxMessage = 64 << 10

// headerSize is magic, version and length.
const headerSize = len(magic) + 1 + 4

// maxText bounds each text of a hello in bytes: host names have 253 at most.
const maxText = 256

// Hello is what a node says of itself.
type Hello struct {
	// Version is the gorun that runs there; all nodes need the same.
	Version string `json:"version"`
	// ID is the job's name.
	ID string `json:"id"`
	// NumNodes is how many nodes it thinks that the job has.
	NumNodes int `json:"nnodes"`
	// NodeRank is its number, -1 where it does not know.
	NodeRank int `json:"node_rank"`
	// Host is the host's own name.
	Host string `json:"host"`
	// NodeID is what the engine calls the node, "" where it has no name for it.
	NodeID string `json:"node_id,omitempty"`
	// Addr is the address or name at which others reach it, where its user said so
	// (--local-addr).
	Addr string `json:"addr,omitempty"`
	// Nonce is that of a node which asks for the secret, and comes again with it: see
	// [Voucher].
	Nonce []byte `json:"nonce,omitempty"`
}

// Welcome is what node 0 answers when all nodes have come.
type Welcome struct {
	// NodeRank is the number of the node that reads it.
	NodeRank int `json:"node_rank"`
	// Host is node 0's own name.
	Host string `json:"host,omitempty"`
	// Sealed is the secret, for who asked for it.
	Sealed []byte `json:"sealed,omitempty"`
	// Refusal says why the node is not taken, "" if it is.
	Refusal string `json:"refusal,omitempty"`
	// Again is that the node may try again: what is wrong may pass.
	Again bool `json:"again,omitempty"`
	// Other is that node 0 is, or may be, that of another job: the node's own may be at
	// another port.
	Other bool `json:"other,omitempty"`
	// Started is that the job runs already, with all of its nodes; another one may follow.
	Started bool `json:"started,omitempty"`
}

// check refuses what no gorun says.
func (h *Hello) check() error {
	for name, text := range map[string]string{
		"version": h.Version, "id": h.ID, "host": h.Host, "node_id": h.NodeID,
		"addr": h.Addr,
	} {
		if len(text) > maxText {
			return fmt.Errorf("%s has %d bytes: at most %d are allowed", name, len(text), maxText)
		}
	}
	if h.NodeRank < -1 {
		return fmt.Errorf("node_rank is %d", h.NodeRank)
	}
	if h.NumNodes < 1 {
		return fmt.Errorf("nnodes is %d", h.NumNodes)
	}
	return nil
}

// versionError is a peer that speaks another version of the messages.
type versionError struct{ theirs byte }

func (e *versionError) Error() string {
	return fmt.Sprintf("it speaks version %d of joining, this gorun speaks %d: the same gorun is needed on all nodes",
		e.theirs, Protocol)
}

// writeMessage sends m, in one Write.
func writeMessage(w io.Writer, m any) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d are sent", len(body), maxMessage)
	}
	p := append(make([]byte, 0, headerSize+len(body)), magic...)
	p = binary.LittleEndian.AppendUint32(append(p, Protocol), uint32(len(body)))
	_, err = w.Write(append(p, body...))
	return err
}

// readMessage reads exactly one message, and no byte behind it.
func readMessage(r io.Reader, m any) error {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:len(magic)+1]); err != nil {
		return err
	}
	if string(head[:len(magic)]) != magic {
		return errors.New("no message of gorun's")
	}
	if v := head[len(magic)]; v != Protocol {
		return &versionError{v}
	}
	if _, err := io.ReadFull(r, head[len(magic)+1:]); err != nil {
		return unexpected(err)
	}
	size := binary.LittleEndian.Uint32(head[len(magic)+1:])
	if size > maxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d are taken", size, maxMessage)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return unexpected(err)
	}
	if err := json.Unmarshal(body, m); err != nil {
		return fmt.Errorf("no message of gorun's: %w", err)
	}
	return nil
}

// readHello reads a node's hello.
func readHello(r io.Reader) (h Hello, err error) {
	if err = readMessage(r, &h); err == nil {
		err = h.check()
	}
	return h, err
}

// unexpected is an end within a message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Name is how messages call a node. It may hold control bytes.
func (h *Hello) Name() string {
	if h.NodeID != "" && !strings.Contains(h.NodeID, h.Host) {
		return h.Host + " (" + h.NodeID + ")"
	}
	return h.Host
}
