package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

// Parts of requests.

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}

// keyed encodes a request about one key.
func keyed(op byte, key string, values ...[]byte) []byte {
	b := appendText([]byte{op}, "/"+key)
	for _, value := range values {
		b = appendText(b, value)
	}
	return b
}

// counted encodes a request about one key and a number.
func counted(op byte, key string, n int64) []byte {
	return binary.LittleEndian.AppendUint64(keyed(op, key), uint64(n))
}

// listed encodes a request about several keys.
func listed(op byte, keys ...string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{op}, uint64(len(keys)))
	for _, key := range keys {
		b = appendText(b, "/"+key)
	}
	return b
}

// Parts of replies.

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
	return b == replyReady, err
}

// readDone reads the reply to a WAIT or BARRIER.
func readDone(from *reader) (struct{}, error) {
	ready, err := readReady(from)
	if err == nil && !ready {
		err = fmt.Errorf("it answered %d, not %d", replyCanceled, replyReady)
	}
	return struct{}{}, err
}

// readValue reads a length and as many bytes, in memory that grows with what comes.
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

// Set stores value under key and wakes waiters for key.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return c.send(ctx, keyed(opSet, key, value))
}

// Get waits until key exists and returns its value. It is empty if the key was deleted at that moment.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := call(ctx, c, readValue, listed(opWait, key), keyed(opGet, key))
	return value, act("get", key, err)
}

// MultiGet is Get for several keys. The values are in the order of the keys.
func (c *Client) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	values, err := call(ctx, c, readValues(len(keys)), listed(opWait, keys...), listed(opMultiGet, keys...))
	return values, act("get", first(keys), err)
}

// Add adds delta to the decimal number stored under key, or to 0 if the key is missing, and returns the sum, which
// wraps around. The number is stored as text, so that Get returns it. If the value does not begin with a number, the
// server closes the connection, and with it the client fails.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	sum, err := call(ctx, c, readNumber, counted(opAdd, key, delta))
	return sum, act("add to", key, err)
}

// CompareSet stores desired if the value under key equals expected, where a missing key equals an empty expected. It
// returns the value that key has then: desired if it was stored, otherwise the old one. If key is missing and expected
// is not empty, it stores nothing and returns expected, on which PyTorch's elastic agents rely.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return call(ctx, c, readValue, keyed(opCompareSet, key, expected, desired))
}

// Delete removes key and reports whether it existed. Waiters go on waiting, and a queue of that name stays.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	return call(ctx, c, readBool, keyed(opDelete, key))
}

// Wait returns when each key has existed since the call, not necessarily at the same time. A queue counts as a key
// while it is not empty.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	_, err := call(ctx, c, readDone, listed(opWait, keys...))
	return act("wait for", first(keys), err)
}

// Check reports whether all keys exist.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	return call(ctx, c, readReady, listed(opCheck, keys...))
}

// first names a list of keys in an error.
func first(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// act adds what was to be done with which key to an error.
func act(what, key string, err error) error {
	if err == nil {
		return nil
	}
	const most = 64
	return fmt.Errorf("%s %.*q: %w", what, most, key, err)
}
