package rendezvous

import (
	"context"
	"strings"
)

// prefixed is a name space within another store.
type prefixed struct {
	store  Store
	prefix string // with the "/" that ends it
}

// WithPrefix returns the part of store whose keys and queues begin with prefix and a slash. It names them as PyTorch's
// PrefixStore does, also when nested (the prefix of the inner store comes first on the wire), and its barrier is that
// of PrefixStore, so that Go and Python ranks meet in it.
func WithPrefix(store Store, prefix string) Store {
	return &prefixed{store: store, prefix: prefix + "/"}
}

func (p *prefixed) names(keys []string) []string {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = p.prefix + key
	}
	return full
}

func (p *prefixed) Set(ctx context.Context, key string, value []byte) error {
	return p.store.Set(ctx, p.prefix+key, value)
}

func (p *prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	return p.store.Get(ctx, p.prefix+key)
}

func (p *prefixed) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return p.store.Add(ctx, p.prefix+key, delta)
}

func (p *prefixed) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return p.store.CompareSet(ctx, p.prefix+key, expected, desired)
}

func (p *prefixed) Append(ctx context.Context, key string, value []byte) error {
	return p.store.Append(ctx, p.prefix+key, value)
}

func (p *prefixed) Delete(ctx context.Context, key string) (bool, error) {
	return p.store.Delete(ctx, p.prefix+key)
}

func (p *prefixed) Wait(ctx context.Context, keys ...string) error {
	return p.store.Wait(ctx, p.names(keys)...)
}

func (p *prefixed) Check(ctx context.Context, keys ...string) (bool, error) {
	return p.store.Check(ctx, p.names(keys)...)
}

func (p *prefixed) MultiSet(ctx context.Context, pairs ...Pair) error {
	full := make([]Pair, len(pairs))
	for i, pair := range pairs {
		full[i] = Pair{Key: p.prefix + pair.Key, Value: pair.Value}
	}
	return p.store.MultiSet(ctx, full...)
}

func (p *prefixed) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	return p.store.MultiGet(ctx, p.names(keys)...)
}

// NumKeys counts the keys of this name space only, where PyTorch's PrefixStore counts those of the whole store.
func (p *prefixed) NumKeys(ctx context.Context) (int, error) {
	keys, err := p.Keys(ctx)
	return len(keys), err
}

func (p *prefixed) Keys(ctx context.Context) ([]string, error) {
	all, err := p.store.Keys(ctx)
	own := all[:0]
	for _, key := range all {
		if key, ok := strings.CutPrefix(key, p.prefix); ok {
			own = append(own, key)
		}
	}
	return own, err
}

func (p *prefixed) QueuePush(ctx context.Context, queue string, value []byte) error {
	return p.store.QueuePush(ctx, p.prefix+queue, value)
}

func (p *prefixed) QueuePop(ctx context.Context, queue string) ([]byte, error) {
	return p.store.QueuePop(ctx, p.prefix+queue)
}

func (p *prefixed) QueueTryPop(ctx context.Context, queue string) ([]byte, bool, error) {
	return p.store.QueueTryPop(ctx, p.prefix+queue)
}

func (p *prefixed) QueueLen(ctx context.Context, queue string) (int, error) {
	return p.store.QueueLen(ctx, p.prefix+queue)
}

// Barrier meets those who use PrefixStore.barrier: that counts under one key and opens the barrier by another.
func (p *prefixed) Barrier(ctx context.Context, key string, worldSize int) error {
	arrived, err := p.Add(ctx, key+"/num_members", 1)
	if err != nil {
		return err
	}
	last := key + "/last_member"
	if arrived >= int64(worldSize) {
		return p.Set(ctx, last, []byte("1"))
	}
	return p.Wait(ctx, last)
}
