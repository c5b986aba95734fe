package tcpstore

import (
	"context"
	"encoding/binary"
)

// Operations that PyTorch's clients use and Go programs do not need.

func (c *Client) Append(ctx context.Context, key string, value []byte) error {
	return c.send(ctx, keyed(opAppend, key, value))
}

// MultiSet sets keys and values, given in pairs.
func (c *Client) MultiSet(ctx context.Context, pairs ...string) error {
	b := binary.LittleEndian.AppendUint64([]byte{opMultiSet}, uint64(len(pairs)/2))
	for i, text := range pairs {
		if i%2 == 0 {
			text = "/" + text
		}
		b = appendText(b, text)
	}
	return c.send(ctx, b)
}

func (c *Client) NumKeys(ctx context.Context) (int, error) {
	n, err := call(ctx, c, readNumber, []byte{opNumKeys})
	return int(n), err
}

// Keys returns the keys without PyTorch's internal ones.
func (c *Client) Keys(ctx context.Context) ([]string, error) {
	return call(ctx, c, func(from *reader) (keys []string, err error) {
		n, err := readNumber(from)
		for ; n > 0 && err == nil; n-- {
			var name []byte
			if name, err = readValue(from); len(name) > 0 && name[0] == '/' {
				keys = append(keys, string(name[1:]))
			}
		}
		return keys, err
	}, []byte{opListKeys})
}

func (c *Client) QueuePush(ctx context.Context, queue string, value []byte) error {
	return c.send(ctx, keyed(opQueuePush, queue, value))
}

// popped is the reply to QUEUE_POP.
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

func (c *Client) QueuePop(ctx context.Context, queue string) ([]byte, error) {
	for {
		p, err := call(ctx, c, readPopped, listed(opWait, queue), keyed(opQueuePop, queue))
		if err != nil || p.ok { // another client may have popped the value first
			return p.value, act("pop from", queue, err)
		}
	}
}

func (c *Client) QueueTryPop(ctx context.Context, queue string) ([]byte, bool, error) {
	p, err := call(ctx, c, readPopped, keyed(opQueuePop, queue))
	return p.value, p.ok, err
}

func (c *Client) QueueLen(ctx context.Context, queue string) (int, error) {
	n, err := call(ctx, c, readNumber, keyed(opQueueLen, queue))
	return int(n), err
}

func (c *Client) Barrier(ctx context.Context, key string, worldSize int) error {
	_, err := call(ctx, c, readDone, counted(opBarrier, key, int64(worldSize)))
	return act("wait at barrier", key, err)
}
