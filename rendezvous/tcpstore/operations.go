package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"gorun/rendezvous"
)

// The parts of requests.

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}

// keyed is a request about one key.
func keyed(op byte, key string, values ...[]byte) []byte {
	b := appendText([]byte{op}, wired(key))
	for _, value := range values {
		b = appendText(b, value)
	}
	return b
}

// counted is a request about one key and a number.
func counted(op byte, key string, n int64) []byte {
	return binary.LittleEndian.AppendUint64(keyed(op, key), uint64(n))
}

// listed is a request about several keys.
func listed(op byte, keys []string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{op}, uint64(len(keys)))
	for _, key := range keys {
		b = appendText(b, wired(key))
	}
	return b
}

// The parts of answers.

func readByte(from *reader) (byte, error) { return from.ReadByte() }

func readUint32(from *reader) (n uint32, err error) {
	err = binary.Read(from, binary.LittleEndian, &n)
	return n, err
}

func readNumber(from *reader) (int64, error) {
	var b [8]byte
	_, err := io.ReadFull(from, b[:])
	return int64(binary.LittleEndian.Uint64(b[:])), err
}

func readBool(from *reader) (bool, error) {
	n, err := readNumber(from)
	return n > 0, err
}

func readReady(from *reader) (bool, error) {
	b, err := from.ReadByte()
	return b == answerReady, err
}

// readValue reads a length and as many bytes, into space that grows with what comes.
func readValue(from *reader) ([]byte, error) {
	n, err := readNumber(from)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("it announced a value of %d bytes", n)
	}
	const atOnce = 1 << 20
	if n <= atOnce {
		value := make([]byte, n)
		_, err = io.ReadFull(from, value)
		return value, err
	}
	var value bytes.Buffer
	if _, err = io.CopyN(&value, from, n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return value.Bytes(), err
}

func readValues(n int) func(*reader) ([][]byte, error) {
	return func(from *reader) (values [][]byte, err error) {
		for range n {
			value, err := readValue(from)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	}
}

// readKeys reads a list of names and leaves those out that are PyTorch's own.
func readKeys(from *reader) (keys []string, err error) {
	n, err := readNumber(from)
	for ; n > 0 && err == nil; n-- {
		var name []byte
		if name, err = readValue(from); err != nil {
			break
		}
		if key, ok := unwired(string(name)); ok {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// popped is the answer to QUEUE_POP.
type popped struct {
	value []byte
	ok    bool
}

func readPopped(from *reader) (p popped, err error) {
	n, err := readNumber(from)
	if p.ok = n > 0; err == nil && p.ok {
		p.value, err = readValue(from)
	}
	return p, err
}

// Set implements [rendezvous.Store].
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return c.tell(ctx, keyed(opSet, key, value))
}

// Get implements [rendezvous.Store].
func (c *Client) Get(ctx context.Context, key string) (value []byte, err error) {
	err = c.after(ctx, listed(opWait, []string{key}), func(l *link) (err error) {
		value, err = roundTrip(ctx, l, keyed(opGet, key), readValue)
		return err
	})
	return value, act("get", key, err)
}

// Add implements [rendezvous.Store]. A key that holds no number ends the client.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	sum, err := ask(ctx, c, counted(opAdd, key, delta), readNumber)
	return sum, act("add to", key, err)
}

// CompareSet implements [rendezvous.Store].
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return ask(ctx, c, keyed(opCompareSet, key, expected, desired), readValue)
}

// Append implements [rendezvous.Store].
func (c *Client) Append(ctx context.Context, key string, value []byte) error {
	return c.tell(ctx, keyed(opAppend, key, value))
}

// Delete implements [rendezvous.Store].
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	return ask(ctx, c, keyed(opDelete, key), readBool)
}

// Wait implements [rendezvous.Store].
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	err := c.after(ctx, listed(opWait, keys), nil)
	if len(keys) == 0 {
		return err
	}
	return act("wait for", keys[0], err)
}

// Check implements [rendezvous.Store].
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	return ask(ctx, c, listed(opCheck, keys), readReady)
}

// MultiSet implements [rendezvous.Store].
func (c *Client) MultiSet(ctx context.Context, pairs ...rendezvous.Pair) error {
	b := binary.LittleEndian.AppendUint64([]byte{opMultiSet}, uint64(len(pairs)))
	for _, p := range pairs {
		b = appendText(appendText(b, wired(p.Key)), p.Value)
	}
	return c.tell(ctx, b)
}

// MultiGet implements [rendezvous.Store].
func (c *Client) MultiGet(ctx context.Context, keys ...string) (values [][]byte, err error) {
	err = c.after(ctx, listed(opWait, keys), func(l *link) (err error) {
		values, err = roundTrip(ctx, l, listed(opMultiGet, keys), readValues(len(keys)))
		return err
	})
	if len(keys) == 0 {
		return values, err
	}
	return values, act("get", keys[0], err)
}

// NumKeys implements [rendezvous.Store]. It counts the keys of everybody, PyTorch's own too.
func (c *Client) NumKeys(ctx context.Context) (int, error) {
	n, err := ask(ctx, c, []byte{opNumKeys}, readNumber)
	return int(n), err
}

// Keys implements [rendezvous.Store]. It leaves out PyTorch's own. Servers of PyTorch know it since 2.10.
func (c *Client) Keys(ctx context.Context) ([]string, error) {
	return ask(ctx, c, []byte{opListKeys}, readKeys)
}

// QueuePush implements [rendezvous.Store]. Servers of PyTorch know queues since 2.8.
func (c *Client) QueuePush(ctx context.Context, queue string, value []byte) error {
	return c.tell(ctx, keyed(opQueuePush, queue, value))
}

// QueuePop implements [rendezvous.Store].
func (c *Client) QueuePop(ctx context.Context, queue string) ([]byte, error) {
	var p popped
	for !p.ok { // another may have been faster
		err := c.after(ctx, listed(opWait, []string{queue}), func(l *link) (err error) {
			p, err = roundTrip(ctx, l, keyed(opQueuePop, queue), readPopped)
			return err
		})
		if err != nil {
			return nil, act("pop from", queue, err)
		}
	}
	return p.value, nil
}

// QueueTryPop implements [rendezvous.Store].
func (c *Client) QueueTryPop(ctx context.Context, queue string) ([]byte, bool, error) {
	p, err := ask(ctx, c, keyed(opQueuePop, queue), readPopped)
	return p.value, p.ok, err
}

// QueueLen implements [rendezvous.Store].
func (c *Client) QueueLen(ctx context.Context, queue string) (int, error) {
	n, err := ask(ctx, c, keyed(opQueueLen, queue), readNumber)
	return int(n), err
}

// Barrier implements [rendezvous.Store]. Servers of PyTorch know it since 2.12. A key that holds no number ends the
// client.
func (c *Client) Barrier(ctx context.Context, key string, worldSize int) error {
	return act("wait at barrier", key, c.after(ctx, counted(opBarrier, key, int64(worldSize)), nil))
}

// act says in an error what was to be done with which key.
func act(what, key string, err error) error {
	if err == nil {
		return nil
	}
	const most = 64
	return fmt.Errorf("%s %.*q: %w", what, most, key, err)
}
