package comm

import (
	"context"
	"fmt"
	"slices"
)

// Bucketer reduces many tensors, such as the gradients of a network, while the caller goes on computing: they are
// flattened into buckets, and a bucket's all-reduce begins as soon as its last tensor is ready, as
// DistributedDataParallel does it (Li et al., "PyTorch Distributed", VLDB 2020). Every step calls Ready once for each
// tensor, in any order that is the same on all ranks only by bucket, and then Wait.
type Bucketer[T Number] struct {
	group   *Group
	op      Op
	tensors [][]T
	home    []int // the tensor's bucket
	at      []int // where it lies in the bucket
	buckets []bucket[T]
	viewed  bool // the tensors are their places in the buckets
	ready   []bool
	next    int // the first bucket that was not begun: all ranks begin them in the same order
}

type bucket[T Number] struct {
	memory  *Shared[T]
	data    []T
	tensors []int
	missing int
	work    *Work
}

// DefaultBucketBytes is PyTorch's bucket_cap_mb.
const DefaultBucketBytes = 25 << 20

// firstBucketBytes lets the first all-reduce begin early.
const firstBucketBytes = 1 << 20

// NewBucketer makes buckets of at most bucketBytes (0: DefaultBucketBytes; a larger tensor gets one of its own) for the
// tensors in the order in which they are given, which should be the one in which they become ready: the last layer's
// first. Every rank of the group calls it, with tensors of the same lengths. op is Avg in most programs.
func NewBucketer[T Number](ctx context.Context, g *Group, op Op, bucketBytes int, tensors ...[]T) (*Bucketer[T],
	error,
) {
	if g == nil {
		return nil, noGroup("NewBucketer")
	}
	if bucketBytes == 0 {
		bucketBytes = DefaultBucketBytes
	}
	if err := checkOp(op, dtypeOf[T]()); err != nil {
		return nil, &ArgumentError{"NewBucketer", err.Error()}
	}
	if bucketBytes < 0 {
		return nil, &ArgumentError{"NewBucketer", fmt.Sprintf("buckets of %d bytes", bucketBytes)}
	}
	b := &Bucketer[T]{
		group: g, op: op, tensors: slices.Clone(tensors), home: make([]int, len(tensors)),
		at: make([]int, len(tensors)), ready: make([]bool, len(tensors)),
	}
	b.plan(bucketBytes / dtypeOf[T]().Size())
	for i := range b.buckets {
		if err := b.room(ctx, i); err != nil {
			return nil, err
		}
	}
	b.reset()
	return b, nil
}

// plan says which tensor lies where.
func (b *Bucketer[T]) plan(capacity int) {
	limit := min(capacity, firstBucketBytes/dtypeOf[T]().Size())
	size := 0
	for i, tensor := range b.tensors {
		if len(b.buckets) == 0 || size > 0 && size+len(tensor) > limit {
			if len(b.buckets) > 0 {
				limit = capacity
			}
			b.buckets = append(b.buckets, bucket[T]{})
			size = 0
		}
		last := &b.buckets[len(b.buckets)-1]
		b.home[i], b.at[i] = len(b.buckets)-1, size
		last.tensors = append(last.tensors, i)
		size += len(tensor)
	}
}

// room gets the memory of a bucket, which is the number-th: shared with the host's ranks where the back end can.
func (b *Bucketer[T]) room(ctx context.Context, number int) error {
	k, size := &b.buckets[number], 0
	for _, i := range k.tensors {
		size += len(b.tensors[i])
	}
	if b.group.Backend() != "cpu" {
		k.data = make([]T, size)
		return nil
	}
	memory, err := allocateFor[T](ctx, b.group, fmt.Sprintf("NewBucketer, bucket %d", number), size)
	if err != nil {
		return err
	}
	k.memory, k.data = memory, memory.Data
	return nil
}

func (b *Bucketer[T]) reset() {
	b.next = 0
	for i := range b.buckets {
		b.buckets[i].missing, b.buckets[i].work = len(b.buckets[i].tensors), nil
	}
	clear(b.ready)
}

// Buckets is how many buckets there are.
func (b *Bucketer[T]) Buckets() int { return len(b.buckets) }

// Views returns, for each tensor, the place in its bucket where it is reduced, and makes that the tensor from now on:
// gradients that are computed there are not copied (PyTorch's gradient_as_bucket_view). The places are gone after
// Close.
func (b *Bucketer[T]) Views() [][]T {
	b.viewed = true
	for i, tensor := range b.tensors {
		at := b.at[i]
		b.tensors[i] = b.buckets[b.home[i]].data[at : at+len(tensor) : at+len(tensor)]
	}
	return slices.Clone(b.tensors)
}

// Ready says that tensor i has its values. It copies them, unless they are in a view, and begins the all-reduce of what
// is complete.
func (b *Bucketer[T]) Ready(ctx context.Context, i int) error {
	if i < 0 || i >= len(b.tensors) || b.ready[i] {
		return &ArgumentError{"Bucketer.Ready", fmt.Sprintf("tensor %d of %d is unknown or was ready before", i,
			len(b.tensors))}
	}
	b.ready[i] = true
	k := &b.buckets[b.home[i]]
	if !b.viewed {
		copy(k.data[b.at[i]:], b.tensors[i])
	}
	k.missing--
	for ; b.next < len(b.buckets) && b.buckets[b.next].missing == 0; b.next++ {
		full := &b.buckets[b.next]
		full.work = AllReduceAsync(ctx, b.group, full.data, full.data, b.op)
	}
	return nil
}

// Wait returns when every tensor holds its reduced values, and makes the buckets ready for the next step. Tensors of
// which Ready was not said make it fail.
func (b *Bucketer[T]) Wait() error {
	for i, ready := range b.ready {
		if !ready {
			return &ArgumentError{"Bucketer.Wait", fmt.Sprintf("tensor %d of %d was never said to be ready", i, len(b.tensors))}
		}
	}
	for k := range b.buckets {
		if err := b.buckets[k].work.Wait(); err != nil {
			return err
		}
		if b.viewed {
			continue
		}
		for _, i := range b.buckets[k].tensors {
			copy(b.tensors[i], b.buckets[k].data[b.at[i]:])
		}
	}
	b.reset()
	return nil
}

// Close gives the buckets' memory back. Every rank of the group calls it.
func (b *Bucketer[T]) Close(ctx context.Context) error {
	for i := range b.buckets {
		if memory := b.buckets[i].memory; memory != nil {
			if err := memory.Free(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
