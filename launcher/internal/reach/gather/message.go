package gather

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// What the keys of the two ends are for.
const (
	forHead  = "gorun gather 1 head"
	forAgent = "gorun gather 1 agent"
)

// maxMessage bounds a message in bytes.
const maxMessage = 16 << 10

// hello is what an agent says first.
type hello struct {
	// Version is the gorun that runs there.
	Version string `json:"version"`
	// Node is what the engine calls its node, "" where it says nothing; Host is the host's
	// own name.
	Node string `json:"node,omitempty"`
	Host string `json:"host"`
}

// welcome is what the head answers when all have come.
type welcome struct {
	// Refusal says why the agent is not wanted, "" if it is.
	Refusal string `json:"refusal,omitempty"`
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
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// readMessage reads exactly one message, and no byte behind it.
func readMessage(r io.Reader, m any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d are taken", size, maxMessage)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, m)
}
