package rendezvous

import "context"

// Pair is a key with its value.
type Pair struct {
	Key   string
	Value []byte
}

// Store is a key-value store shared by the ranks of a job. All methods may be called from several goroutines at once.
//
// Every method ends when its context does, with an error that wraps the context's cause; the store stays usable. A
// change that was under way by then may or may not have happened. When a method that changes the store returns nil,
// everybody sees the change.
//
// Keys and values are bytes and may be empty. Values belong to the caller, both those passed in and those returned.
type Store interface {
	// Set stores value under key and wakes those who wait for key.
	Set(ctx context.Context, key string, value []byte) error
	// Get waits until key exists and returns its value, an empty one if it was deleted just then.
	Get(ctx context.Context, key string) ([]byte, error)
	// Add adds delta to the decimal number stored under key, 0 where there is none, and returns the sum. It is stored
	// as text, so that Get sees it. A value that does not begin with a number is an error. Sums wrap around.
	Add(ctx context.Context, key string, delta int64) (int64, error)
	// CompareSet stores desired if the value under key equals expected; a missing key equals an empty expected. It
	// returns the value now in force: desired if it was stored, else the present one. If key is missing and expected is
	// not empty, nothing is stored and expected is returned: PyTorch's elastic agents rely on that.
	CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error)
	// Append adds value to the end of what is stored under key, nothing where there is none.
	Append(ctx context.Context, key string, value []byte) error
	// Delete removes key and reports whether it existed. It wakes nobody and leaves a queue of that name alone.
	Delete(ctx context.Context, key string) (bool, error)

	// Wait returns when each of the keys has existed, not necessarily at the same time, since Wait was called. A queue
	// counts as a key while something is in it.
	Wait(ctx context.Context, keys ...string) error
	// Check reports whether all keys exist at this moment.
	Check(ctx context.Context, keys ...string) (bool, error)

	// MultiSet is Set for each pair in turn, in one request.
	MultiSet(ctx context.Context, pairs ...Pair) error
	// MultiGet is Get for all keys; the values have the order of the keys.
	MultiGet(ctx context.Context, keys ...string) ([][]byte, error)

	// NumKeys counts the keys. Queues are no keys.
	NumKeys(ctx context.Context) (int, error)
	// Keys lists the keys in no particular order.
	Keys(ctx context.Context) ([]string, error)

	// QueuePush puts value at the end of the queue of that name and wakes one of those who wait for it. Queues and keys
	// of the same name have nothing to do with each other.
	QueuePush(ctx context.Context, queue string, value []byte) error
	// QueuePop waits until something is in the queue and takes the oldest.
	QueuePop(ctx context.Context, queue string) ([]byte, error)
	// QueueTryPop takes the oldest value of the queue and reports whether there was one.
	QueueTryPop(ctx context.Context, queue string) ([]byte, bool, error)
	// QueueLen counts what is in the queue.
	QueueLen(ctx context.Context, queue string) (int, error)

	// Barrier counts the caller under key and waits until worldSize have arrived. It is not reusable: once full it lets
	// everybody pass at once. Who gives up stays counted.
	Barrier(ctx context.Context, key string, worldSize int) error
}
