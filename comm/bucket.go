package comm

import (
	"context"
	"fmt"
	"slices"
)

// Bucketer all-reduces many tensors, such as a network's gradients, while the caller continues to compute. It flattens
// the tensors into buckets and starts the all-reduce of a bucket when the bucket's last tensor is ready. The method is
// that of DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020).
//
// In every step, call Ready once for each tensor, then Wait. The order of the Ready calls can differ between ranks.
type Bucketer[T Number] struct {
	group   *Group
	op      Op
	tensors [][]T
	home    []int // index of each tensor's bucket
	at      []int // offset of each tensor in its bucket, in elements
	buckets []bucket[T]
	viewed  bool // the tensors are views of the buckets
	ready   []bool
	next    int // the first bucket that has not started; all ranks start them in the same order
}

type bucket[T Number] struct {
	memory  *Shared[T]
	data    []T
	tensors []int
	missing int
	work    *Work
}

// DefaultBucketBytes is the default bucket size: 25 MiB, as in PyTorch (bucket_cap_mb).
const DefaultBucketBytes = 25 << 20

// firstBucketBytes is small so that the first all-reduce starts early.
const firstBucketBytes = 1 << 20

// NewBucketer returns a Bucketer with buckets of at most bucketBytes; 0 means DefaultBucketBytes. A tensor larger than
// that gets its own bucket. Pass the tensors in the order in which they become ready: the last layer's first. Every
// rank of the group must call NewBucketer with tensors of the same lengths. Most programs pass Avg as op.
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
			_ = b.Close(ctx) // nobody else can
			return nil, err
		}
	}
	b.reset()
	return b, nil
}

// plan assigns each tensor a bucket and an offset.
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

// room allocates bucket number. On the CPU back end the memory is shared with the host's other ranks.
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

// Buckets returns the number of buckets.
func (b *Bucketer[T]) Buckets() int { return len(b.buckets) }

// Views returns a view of each tensor's part of its bucket and uses the views as the tensors from now on. Gradients
// that you compute there are not copied (PyTorch's gradient_as_bucket_view). The views are invalid after Close.
func (b *Bucketer[T]) Views() [][]T {
	b.viewed = true
	for i, tensor := range b.tensors {
		at := b.at[i]
		b.tensors[i] = b.buckets[b.home[i]].data[at : at+len(tensor) : at+len(tensor)]
	}
	return slices.Clone(b.tensors)
}

// Ready reports that tensor i has its values. It copies them into the bucket unless they are in a view, and starts the
// all-reduce of complete buckets. It returns an [ArgumentError] if i is out of range or was ready before in this step.
func (b *Bucketer[T]) Ready(ctx context.Context, i int) error {
	if i < 0 || i >= len(b.tensors) || b.ready[i] {
		return &ArgumentError{"Bucketer.Ready", fmt.Sprintf("tensor %d of %d is unknown or was ready before", i,
			len(b.tensors))}
	}
	if b.group.queue.over() {
		return errClosed
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

// Wait blocks until every tensor holds its reduced values, then resets the buckets for the next step. It fails if Ready
// was not called for a tensor.
func (b *Bucketer[T]) Wait() error {
	for i, ready := range b.ready {
		if !ready {
			return &ArgumentError{"Bucketer.Wait", fmt.Sprintf("tensor %d of %d was never said to be ready", i, len(b.tensors))}
		}
	}
	var failed error
	for k := range b.buckets { // all of them: the memory is in use until then
		if err := b.buckets[k].work.Wait(); err != nil && failed == nil {
			failed = err
		}
		if failed == nil && b.group.queue.over() {
			failed = errClosed
		}
		if b.viewed || failed != nil {
			continue
		}
		for _, i := range b.buckets[k].tensors {
			copy(b.tensors[i], b.buckets[k].data[b.at[i]:])
		}
	}
	if failed == nil {
		b.reset()
	}
	return failed
}

// Close releases the buckets' memory. Every rank of the group must call it. Ready and Wait fail afterwards.
func (b *Bucketer[T]) Close(ctx context.Context) error {
	for i := range b.buckets {
		if memory := b.buckets[i].memory; memory != nil {
			if err := memory.Free(ctx); err != nil {
				return err
			}
		}
	}
	b.tensors, b.buckets = nil, nil
	return nil
}
