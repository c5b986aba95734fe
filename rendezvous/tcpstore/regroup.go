package tcpstore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
)

// PyTorch numbers process groups from zero again after destroy_process_group(). If the store outlives the group, the
// next init_process_group() finds the old group's keys, and ranks connect to addresses without a listener. The store
// therefore counts the default groups of each process: processes in their second group see each other's keys of the
// second group, and so on. Ranks need not change groups at the same time.
//
// Keys of earlier groups stay until the store ends, as in PyTorch's own. A process that is new to the store begins in
// its first group, where others may have left keys for it, since groups of NCCL do not wait for all ranks; and the
// store does not know how many processes will come.
//
// A process enters its next group when all of its connections that used keys of the default group are closed, or when
// the first such request on a new connection sets a key of the group itself again: an object may still hold the old
// group's connection open. Keys of the program do not count: a clone of the store may set them at any time.

// defaultGroup is the prefix of keys of the default group. In later groups of a process the name between the slashes is
// replaced by one of the same length: "pg" and the group's number in hexadecimal.
const defaultGroup = "/default_pg/"

// maxMembers bounds the processes whose groups are counted. Others share the keys of the first group.
const maxMembers = 1 << 16

// processID identifies a process, as far as the store knows.
type processID struct {
	host netip.Addr
	pid  uint32
}

// member is a process that has used keys of the default group.
type member struct {
	group uint32 // number of its group, from 0
	open  int    // connections that have used such keys
}

// key returns a key of a request under which the store has it. It overwrites the request.
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

// enter assigns a connection to a group of its process.
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

// isOfGroup reports whether a process group itself uses the key. The name then begins with the group's number, as in
// "0//cpu//0/1"; the program's own keys, which it may set again at any time, do not.
func isOfGroup(key []byte) bool {
	name, _, found := bytes.Cut(key[len(defaultGroup):], []byte("//"))
	return found && len(name) > 0 && len(bytes.Trim(name, "0123456789")) == 0
}

func (l *loop) isSet(group uint32, key []byte) bool {
	key = bytes.Clone(key)
	rename(key, group)
	return l.engine.Check(key)
}

// rename gives a key of the default group its name in a later one.
func rename(key []byte, group uint32) {
	if group > 0 {
		copy(key[1:], "pg")
		hex.Encode(key[3:], binary.BigEndian.AppendUint32(nil, group))
	}
}

// regrouped undoes rename.
func regrouped(key string) string {
	if len(key) > len(defaultGroup) && key[:3] == "/pg" && key[len(defaultGroup)-1] == '/' {
		if _, err := hex.DecodeString(key[3 : len(defaultGroup)-1]); err == nil {
			return defaultGroup + key[len(defaultGroup):]
		}
	}
	return key
}
