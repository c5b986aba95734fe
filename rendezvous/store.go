// Package rendezvous is the store in which the processes of a distributed
// program meet: a small table of keys, counters and queues, in which one can wait
// for what is not there yet.
//
// [Memory] is such a store within one process. Package tcpstore serves one in
// PyTorch's protocol and is a client of it; package storetest is the contract
// that every store passes.
package rendezvous

import (
	"context"
	"errors"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: a key has no value, or a queue is empty.
	ErrNotFound = errors.New("not found")
	// ErrNotANumber: a counter's value is no decimal number of 64 bits.
	ErrNotANumber = errors.New("value is not a decimal number of 64 bits")
)

// Pair is a key and its value.
type Pair struct {
	Key   string
	Value []byte
}

// Store is a rendezvous store. Methods may be called by several goroutines. Get,
// MultiGet, Wait and Barrier wait; they return the cause of ctx when that ends,
// and the store stays usable. Values must not be changed after they were passed
// or returned.
type Store interface {
	// Set stores a value and wakes who waits for the key.
	Set(ctx context.Context, key string, value []byte) error
	// Get waits for the key and returns its value.
	Get(ctx context.Context, key string) ([]byte, error)
	// Add adds to a decimal counter, which begins at 0, and returns the sum, which
	// wraps. Without a number in the key it fails with ErrNotANumber.
	Add(ctx context.Context, key string, delta int64) (int64, error)
	// CompareSet stores desired if the value is expected, or the key is missing and
	// expected is empty, and returns the value in force: of a missing key with an
	// expectation, the expectation.
	CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error)
	// Append adds to the end of a value, which begins empty.
	Append(ctx context.Context, key string, more []byte) error
	// Check reports whether all keys have values, or queues with something in them.
	Check(ctx context.Context, keys ...string) (bool, error)
	// Wait waits until all keys were there at some time since.
	Wait(ctx context.Context, keys ...string) error
	// Delete removes a key and reports whether it was there.
	Delete(ctx context.Context, key string) (bool, error)
	// NumKeys returns the number of keys of the whole store, queues not counted.
	NumKeys(ctx context.Context) (int64, error)
	// Keys returns the keys, in no order.
	Keys(ctx context.Context) ([]string, error)
	// MultiGet waits for all keys and returns their values in their order.
	MultiGet(ctx context.Context, keys ...string) ([][]byte, error)
	// MultiSet stores the pairs in their order.
	MultiSet(ctx context.Context, pairs ...Pair) error
	// Push puts a value at the end of a queue and wakes one who waits for it.
	Push(ctx context.Context, queue string, value []byte) error
	// Pop takes the first value of a queue, ErrNotFound if there is none.
	Pop(ctx context.Context, queue string) ([]byte, error)
	// QueueLen returns the length of a queue.
	QueueLen(ctx context.Context, queue string) (int64, error)
	// Barrier waits until size callers have arrived at the key. It is not reusable:
	// later arrivals pass at once.
	Barrier(ctx context.Context, key string, size int64) error
}
