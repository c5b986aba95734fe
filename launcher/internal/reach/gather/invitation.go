package gather

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gorun/launcher/internal/reach/join"
)

// Invitation tells an agent how to connect to its head. It contains a secret.
type Invitation struct {
	Protocol int `json:"gather"`
	// Version is the head's gorun.
	Version string `json:"version"`
	// Token authenticates both ends; 32 bytes.
	Token []byte `json:"token"`
	// Addrs are the head's possible addresses, the most plausible first.
	Addrs []netip.Addr `json:"addrs"`
	Port  int          `json:"port"`
	// NumNodes counts the agents and the head.
	NumNodes int `json:"nnodes"`
	// NodeIDs names variables; the first that is set contains the name of the agent's node.
	NodeIDs []string `json:"node_ids,omitempty"`
	// Signals says that the engine sends signals to ranks as well as to agents.
	Signals bool `json:"signals,omitempty"`
	// Within limits the agent's attempts to connect, and then its wait for the others.
	Within time.Duration `json:"within"`
	// Brought is the file name of the agent's program if the engine copied it to the node for
	// this job: the agent removes it.
	Brought string `json:"brought,omitempty"`
}

// maxInvitation limits the size of an invitation, in bytes.
const maxInvitation = 64 << 10

func (i *Invitation) line() ([]byte, error) {
	line, err := json.Marshal(i)
	return append(line, '\n'), err
}

// ReadInvitation reads an invitation, one line.
func ReadInvitation(r io.Reader) (*Invitation, error) {
	in := bufio.NewReaderSize(io.LimitReader(r, maxInvitation), maxInvitation)
	line, err := in.ReadBytes('\n')
	if err != nil && len(line) == 0 {
		return nil, fmt.Errorf("read the invitation from standard input: %w", err)
	}
	var i Invitation
	if err := json.Unmarshal(line, &i); err != nil {
		return nil, fmt.Errorf("parse the invitation: %w", err)
	}
	if i.Protocol != join.Protocol {
		return nil, fmt.Errorf("the launcher has version %d of the gather protocol (gorun %s), this gorun has %d",
			i.Protocol, i.Version, join.Protocol)
	}
	if len(i.Addrs) == 0 || i.NumNodes < 1 || i.Port <= 0 || i.Port > 65535 {
		return nil, errors.New("the invitation lacks the launcher's address")
	}
	return &i, nil
}

// ReadInvitationFile reads an invitation from a file. The file must be this user's, and unreadable
// for all others.
func ReadInvitationFile(name string) (*Invitation, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 ||
		int(s.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("other users can read %s", name)
	}
	i, err := ReadInvitation(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return i, nil
}

// writeFile writes line to a new file in a new directory below dir, both accessible to this user
// only. remove removes both.
func writeFile(dir string, line []byte) (name string, remove func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	private, err := os.MkdirTemp(dir, "join-") // mode 0700
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(private) }
	name = filepath.Join(private, "head")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		remove()
		return "", nil, err
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil { // Sync: other hosts read it
		remove()
		return "", nil, err
	}
	return name, remove, nil
}
