package tcpstore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
)

// PyTorch numbers process groups anew after destroy_process_group(), so that init_process_group() finds the keys of the
// group before in a store that outlives it, and its ranks connect to addresses at which nobody listens any more. The
// store therefore counts, for each process, how many default groups it has been in: those that are in their second see
// the keys of others in their second, and so on. Ranks need not come at the same time.
//
// Keys of earlier groups stay until the store ends, as in PyTorch's own: a process that the store has not heard of yet
// begins in its first group, where others may have left something for it (groups of NCCL do not wait for all ranks),
// and the store does not know how many are to come.
//
// A process is in its next group when all its connections that used keys of the default group are closed, or when the
// first such request of a new connection sets a key of the group itself again: some object may still keep the old
// group's connection open. A key of the program's says nothing: a clone of the store may set it as often as it likes.

// defaultGroup is what keys of the default group begin with. In later groups of a process the name between the slashes
// is replaced by another of the same length: "pg" and the number in hexadecimal digits.
const defaultGroup = "/default_pg/"

// maxMembers is how many processes the store counts groups for; more share the keys of the first.
const maxMembers = 1 << 16

// processID names a process as far as the store knows it.
type processID struct {
	host netip.Addr
	pid  uint32
}

// member is a process that has used keys of the default group.
type member struct {
	group uint32 // from 0
	open  int    // connections that used such keys
}

// key is a key of a request as the store has it. It writes into the request.
func (l *loop) key(c *conn, op byte, key []byte) []byte {
	if c.pid == 0 || !bytes.HasPrefix(key, []byte(defaultGroup)) {
		return key
	}
	if c.member == nil {
		l.enter(c, op, key)
	}
	if c.member != nil {
		rename(key, c.group)
	}
	return key
}

// enter finds out which group of its process a connection belongs to.
func (l *loop) enter(c *conn, op byte, key []byte) {
	id := processID{c.peer.Addr(), c.pid}
	m := l.members[id]
	if m == nil {
		if len(l.members) >= maxMembers {
			return
		}
		m = &member{}
		l.members[id] = m
	} else if m.open == 0 || op == opSet && isOfGroup(key) && l.isSet(m.group, key) {
		m.group++
	}
	m.open++
	c.member, c.group = m, m.group
}

// isOfGroup reports whether a process group itself uses the key, whose name then begins with the group's number, as in
// "0//cpu//0/1"; the program's own keys, which it may set again at any time, have no such beginning.
func isOfGroup(key []byte) bool {
	name, _, found := bytes.Cut(key[len(defaultGroup):], []byte("//"))
	return found && len(name) > 0 && len(bytes.Trim(name, "0123456789")) == 0
}

func (l *loop) isSet(group uint32, key []byte) bool {
	key = bytes.Clone(key)
	rename(key, group)
	return l.engine.Check(key)
}

// rename gives a key of the default group the name that it has in a later one.
func rename(key []byte, group uint32) {
	if group > 0 {
		copy(key[1:], "pg")
		hex.Encode(key[3:], binary.BigEndian.AppendUint32(nil, group))
	}
}

// regrouped is a renamed key as its client's caller names it.
func regrouped(key string) string {
	if len(key) > len(defaultGroup) && key[:3] == "/pg" && key[len(defaultGroup)-1] == '/' {
		if _, err := hex.DecodeString(key[3 : len(defaultGroup)-1]); err == nil {
			return defaultGroup + key[len(defaultGroup):]
		}
	}
	return key
}
