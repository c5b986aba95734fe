package join

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Protocol is the version of the messages. It changes when an older peer could no longer follow.
const Protocol = 2

// magic starts each message; on plain TCP it identifies a node.
const magic = "gorun"

const (
	maxMessage = 64 << 10           // bytes of a message's JSON
	headerSize = len(magic) + 1 + 4 // magic, version and length
	maxText    = 256                // bytes of each text of a hello: host names have at most 253
)

// Hello describes a node.
type Hello struct {
	// Version is the node's gorun; all nodes need the same.
	Version string `json:"version"`
	// ID is the job's id.
	ID string `json:"id"`
	// NumNodes is the number of nodes that the node expects.
	NumNodes int `json:"nnodes"`
	// MinNodes is the number of nodes that suffice, 0: all. The job then accepts nodes at any time.
	MinNodes int `json:"min_nodes,omitempty"`
	// NodeRank is the node's rank, -1 if it has none yet.
	NodeRank int `json:"node_rank"`
	// Host is the host's own name.
	Host string `json:"host"`
	// NodeID is the resource manager's name of the node, "" if it has none.
	NodeID string `json:"node_id,omitempty"`
	// Addr is the address or name at which others reach the node, if the user gave it (--local-addr).
	Addr string `json:"addr,omitempty"`
	// Nonce is set by a node that asks for the secret and connects again with it: see [Sealer].
	Nonce []byte `json:"nonce,omitempty"`
}

// Welcome is node 0's answer once all nodes are connected, or its refusal.
type Welcome struct {
	// NodeRank is the rank of the node that reads it.
	NodeRank int `json:"node_rank"`
	// Host is node 0's own name.
	Host string `json:"host,omitempty"`
	// Sealed is the secret, for a node that asked for it.
	Sealed []byte `json:"sealed,omitempty"`
	// Refusal says why the node is not accepted, "" if it is.
	Refusal string `json:"refusal,omitempty"`
	// Waits says that the job runs, and that another welcome follows when it has a place for the node.
	Waits bool `json:"waits,omitempty"`
	// Ended says that a node that waited is no longer needed: the job has ended with Code.
	Ended bool `json:"ended,omitempty"`
	Code  int  `json:"code,omitempty"`
	// Retry says that the reason for the refusal may pass.
	Retry bool `json:"again,omitempty"`
	// OtherJob says that node 0 may be that of another job: the node's own may be at another port.
	OtherJob bool `json:"other,omitempty"`
	// Started says that the job runs with all of its nodes; another one may follow.
	Started bool `json:"started,omitempty"`
}

// check refuses what no gorun sends.
func (h *Hello) check() error {
	for name, text := range map[string]string{
		"version": h.Version, "id": h.ID, "host": h.Host, "node_id": h.NodeID, "addr": h.Addr,
	} {
		if len(text) > maxText {
			return fmt.Errorf("%s has %d bytes: at most %d are allowed", name, len(text), maxText)
		}
	}
	if h.NodeRank < -1 {
		return fmt.Errorf("node_rank is %d", h.NodeRank)
	}
	if h.NumNodes < 1 || h.MinNodes < 0 || h.MinNodes > h.NumNodes {
		return fmt.Errorf("nnodes is %s", h.nodes())
	}
	return nil
}

// nodes is the expected number of nodes, as in --nnodes.
func (h *Hello) nodes() string {
	if h.MinNodes > 0 && h.MinNodes < h.NumNodes {
		return fmt.Sprintf("%d:%d", h.MinNodes, h.NumNodes)
	}
	return strconv.Itoa(h.NumNodes)
}

// Name is the node's name in messages. It may hold control bytes.
func (h *Hello) Name() string {
	if h.NodeID != "" && !strings.Contains(h.NodeID, h.Host) {
		return h.Host + " (" + h.NodeID + ")"
	}
	return h.Host
}

// versionError reports a peer with another version of the messages.
type versionError struct{ theirs byte }

func (e *versionError) Error() string {
	return fmt.Sprintf("it uses version %d of the join protocol, this node uses %d: install the same gorun on all nodes",
		e.theirs, Protocol)
}

// writeMessage sends m in one Write.
func writeMessage(w io.Writer, m any) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d are allowed", len(body), maxMessage)
	}
	p := append(make([]byte, 0, headerSize+len(body)), magic...)
	p = binary.LittleEndian.AppendUint32(append(p, Protocol), uint32(len(body)))
	_, err = w.Write(append(p, body...))
	return err
}

// readMessage reads one message and no byte beyond it.
func readMessage(r io.Reader, m any) error {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:len(magic)+1]); err != nil {
		return err
	}
	if string(header[:len(magic)]) != magic {
		return errors.New("not a message from gorun")
	}
	if v := header[len(magic)]; v != Protocol {
		return &versionError{v}
	}
	if err := readRest(r, header[len(magic)+1:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(header[len(magic)+1:])
	if size > maxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d are allowed", size, maxMessage)
	}
	body := make([]byte, size)
	if err := readRest(r, body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, m); err != nil {
		return fmt.Errorf("not a message from gorun: %w", err)
	}
	return nil
}

// readRest fills p within a message.
func readRest(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readHello reads a node's hello.
func readHello(r io.Reader) (h Hello, err error) {
	if err = readMessage(r, &h); err == nil {
		err = h.check()
	}
	return h, err
}
