package tcpstore

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process connects like PyTorch's client of a process.
func process(t *testing.T, s opened, pid byte) raw {
	r := greet(t, s)
	r.send([]byte{opPing, pid, 0, 0, 0})
	r.expect(pid, 0, 0, 0)
	return r
}

// reads requires the value of a key, "" for a missing one.
func (r raw) reads(key, want string) {
	r.t.Helper()
	r.send(keyed(opGet, key))
	r.expect(appendText(nil, want)...)
}

// leave closes a connection and waits until the server detects that.
func (r raw) leave(s opened) {
	r.t.Helper()
	before := s.Snapshot().Connections
	require.NoError(r.t, r.Close())
	require.Eventually(r.t, func() bool { return s.Snapshot().Connections < before }, time.Minute, time.Millisecond)
}

const firstAddress, secondAddress = "default_pg/0//cpu//0/0", "default_pg/0//cpu//0/1"

// Two ranks call init_process_group, destroy_process_group and init_process_group again, one ahead of the other.
func TestNextDefaultGroupSeesNoKeysOfTheOneBefore(t *testing.T) {
	s := open(t, Config{})
	zero, one := process(t, s, 10), process(t, s, 11)
	zero.send(keyed(opSet, firstAddress, []byte("zero, first")))
	zero.reads(firstAddress, "zero, first")
	one.send(keyed(opSet, secondAddress, []byte("one, first")), keyed(opSet, "mine", []byte("kept")))
	one.reads(firstAddress, "zero, first")
	one.leave(s)

	one = process(t, s, 11)
	clone := process(t, s, 11) // like the clone that NCCL's watchdog uses
	one.send(keyed(opSet, secondAddress, []byte("one, second")))
	one.reads(firstAddress, "")
	clone.reads(secondAddress, "one, second")
	zero.reads(secondAddress, "one, first")
	one.reads("mine", "kept")
	one.send(listed(opWait, firstAddress))
	require.Eventually(t, func() bool { return len(s.Waits()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{firstAddress}, s.Waits()[0].Keys)

	zero.leave(s)
	zero = process(t, s, 10)
	zero.reads(secondAddress, "one, second")
	zero.send(keyed(opSet, firstAddress, []byte("zero, second")))
	one.expect(replyReady)
	one.reads(firstAddress, "zero, second")

	// A new process that replaces an ended one is in the first group.
	late := process(t, s, 12)
	late.reads(firstAddress, "zero, first")
}

// Every operation uses keys of the same group.
func TestOperationsOfTheNextDefaultGroup(t *testing.T) {
	s := open(t, Config{})
	before := process(t, s, 10)
	before.send(keyed(opSet, "default_pg/a", []byte("old")))
	before.reads("default_pg/a", "old")
	before.leave(s)

	r := process(t, s, 10)
	r.send(listed(opCheck, "default_pg/a"))
	r.expect(replyNotReady)
	r.send(counted(opAdd, "default_pg/a", 2))
	r.expect(binary.LittleEndian.AppendUint64(nil, 2)...)
	r.send(keyed(opAppend, "default_pg/a", []byte("3")), listed(opMultiGet, "default_pg/a"))
	r.expect(appendText(nil, "23")...)
	r.send(keyed(opCompareSet, "default_pg/a", []byte("23"), []byte("4")))
	r.expect(appendText(nil, "4")...)
	r.send(counted(opBarrier, "default_pg/b", 1))
	r.expect(replyReady)
	r.send(keyed(opQueuePush, "default_pg/q", []byte("x")), keyed(opQueueLen, "default_pg/q"))
	r.expect(binary.LittleEndian.AppendUint64(nil, 1)...)
	r.send(keyed(opQueuePop, "default_pg/q"))
	r.expect(appendText(binary.LittleEndian.AppendUint64(nil, 1), "x")...)
	r.send(keyed(opDelete, "default_pg/a"))
	r.expect(binary.LittleEndian.AppendUint64(nil, 1)...)

	other := process(t, s, 11)
	other.reads("default_pg/a", "old")
}

// An object that holds the old group's connection open, such as a DistributedDataParallel, does not keep its process in
// the group.
func TestDefaultGroupThatIsKeptOpen(t *testing.T) {
	s := open(t, Config{})
	kept := process(t, s, 10)
	kept.send(keyed(opSet, firstAddress, []byte("first")))
	kept.reads(firstAddress, "first")
	next := process(t, s, 10)
	next.send(keyed(opSet, firstAddress, []byte("second")))
	next.reads(firstAddress, "second")
	kept.reads(firstAddress, "first")
}

// A clone of the store that sets a key of the program again does not start a new group.
func TestCloneOfTheDefaultGroupsStore(t *testing.T) {
	s := open(t, Config{})
	first := process(t, s, 10)
	first.send(keyed(opSet, firstAddress, []byte("first")), keyed(opSet, "default_pg/ping", []byte("0")))
	first.reads("default_pg/ping", "0")
	clone := process(t, s, 10)
	clone.send(keyed(opSet, "default_pg/ping", []byte("1")))
	clone.reads(firstAddress, "first")
	first.reads("default_pg/ping", "1")
}
