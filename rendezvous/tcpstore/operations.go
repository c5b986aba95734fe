package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

// The parts of requests.

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}

// keyed is a request about one key.
func keyed(op byte, key string, values ...[]byte) []byte {
	b := appendText([]byte{op}, "/"+key)
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
func listed(op byte, keys ...string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{op}, uint64(len(keys)))
	for _, key := range keys {
		b = appendText(b, "/"+key)
	}
	return b
}

// The parts of answers.

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

// readDone reads the answer to a WAIT or BARRIER that is over.
func readDone(from *reader) (struct{}, error) {
	ready, err := readReady(from)
	if err == nil && !ready {
		err = fmt.Errorf("it answered %d where %d was due", answerCanceled, answerReady)
	}
	return struct{}{}, err
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

// Set stores value under key and wakes those who wait for key.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return c.tell(ctx, keyed(opSet, key, value))
}

// Get waits until key exists and returns its value, an empty one if it was deleted just then.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := ask(ctx, c, readValue, listed(opWait, key), keyed(opGet, key))
	return value, act("get", key, err)
}

// MultiGet is Get for all keys; the values have the order of the keys.
func (c *Client) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	values, err := ask(ctx, c, readValues(len(keys)), listed(opWait, keys...), listed(opMultiGet, keys...))
	return values, act("get", first(keys), err)
}

// Add adds delta to the decimal number stored under key, 0 where there is none, and returns the sum, which wraps
// around. It is stored as text, so that Get sees it. The server ends the client for a value that does not begin with a
// number.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	sum, err := ask(ctx, c, readNumber, counted(opAdd, key, delta))
	return sum, act("add to", key, err)
}

// CompareSet stores desired if the value under key equals expected; a missing key equals an empty expected. It returns
// the value now in force: desired if it was stored, else the present one. If key is missing and expected is not empty,
// nothing is stored and expected is returned: PyTorch's elastic agents rely on that.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return ask(ctx, c, readValue, keyed(opCompareSet, key, expected, desired))
}

// Delete removes key and reports whether it existed. It wakes nobody and leaves a queue of that name alone.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	return ask(ctx, c, readBool, keyed(opDelete, key))
}

// Wait returns when each of the keys has existed, not necessarily at the same time, since Wait was called. A queue
// counts as a key while something is in it.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	_, err := ask(ctx, c, readDone, listed(opWait, keys...))
	return act("wait for", first(keys), err)
}

// Check reports whether all keys exist at this moment.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	return ask(ctx, c, readReady, listed(opCheck, keys...))
}

// first names several keys in an error.
func first(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// act says in an error what was to be done with which key.
func act(what, key string, err error) error {
	if err == nil {
		return nil
	}
	const most = 64
	return fmt.Errorf("%s %.*q: %w", what, most, key, err)
}
