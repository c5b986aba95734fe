package hwloc

import (
	"fmt"
	"math/bits"
	"strings"

	"gorun/placement"
)

// bitmap is a set of CPUs or NUMA nodes: bit i of word w is number 64*w+i.
type bitmap []uint64

func bitmapOf(s placement.CPUSet) bitmap { return s.Mask() }

func (b *bitmap) add(n int) {
	for len(*b) <= n/64 {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bitmap) word(i int) uint64 {
	if i < len(b) {
		return b[i]
	}
	return 0
}

func (b bitmap) empty() bool { return b.size() == 0 }

func (b bitmap) size() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// first is the lowest number, -1 without one.
func (b bitmap) first() int {
	for i, word := range b {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// includes reports whether all of other is in b.
func (b bitmap) includes(other bitmap) bool {
	for i, word := range other {
		if word&^b.word(i) != 0 {
			return false
		}
	}
	return true
}

func (b bitmap) overlaps(other bitmap) bool {
	for i, word := range other {
		if word&b.word(i) != 0 {
			return true
		}
	}
	return false
}

func (b bitmap) equals(other bitmap) bool { return b.includes(other) && other.includes(b) }

func or(a, b bitmap) bitmap {
	both := make(bitmap, max(len(a), len(b)))
	for i := range both {
		both[i] = a.word(i) | b.word(i)
	}
	return both
}

// String is how hwloc writes a set, words of 32 bits, the highest first: "0x00000001,0xffffffff".
func (b bitmap) String() string {
	var words []string
	for i := len(b) - 1; i >= 0; i-- {
		for _, half := range []uint32{uint32(b[i] >> 32), uint32(b[i])} {
			if half != 0 || len(words) > 0 {
				words = append(words, fmt.Sprintf("0x%08x", half))
			}
		}
	}
	if len(words) == 0 {
		return "0x0"
	}
	return strings.Join(words, ",")
}
