package placement

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxCPU limits CPU numbers, so that a mistyped list cannot exhaust memory. Linux supports at most
// 8192 CPUs.
const maxCPU = 1 << 16

// CPUSet is an immutable set of logical CPUs by kernel number. Its zero value is the empty set. Its
// text form is the kernel's list format: "0-3,8".
type CPUSet struct {
	words []uint64 // bit i of word w is CPU 64*w+i; the last word is not 0
}

// CPUSetOf returns the set for a bit mask in the format of sched_getaffinity: bit i of word w is
// CPU 64*w+i.
func CPUSetOf(mask []uint64) CPUSet {
	for len(mask) > 0 && mask[len(mask)-1] == 0 {
		mask = mask[:len(mask)-1]
	}
	return CPUSet{words: append([]uint64(nil), mask...)}
}

// NewCPUSet returns the set of the given CPUs.
func NewCPUSet(cpus ...int) CPUSet {
	if len(cpus) == 0 {
		return CPUSet{}
	}
	words := make([]uint64, slices.Max(cpus)/64+1)
	for _, cpu := range cpus {
		words[cpu/64] |= 1 << (cpu % 64)
	}
	return CPUSet{words: words}
}

// ParseCPUSet parses the kernel's list format: numbers and ranges separated by commas, such as
// "0-3,8", with optional surrounding white space. Empty text is the empty set.
func ParseCPUSet(list string) (CPUSet, error) {
	var words []uint64
	list = strings.TrimSpace(list)
	for rest := list; rest != ""; {
		var item string
		item, rest, _ = strings.Cut(rest, ",")
		first, last, err := parseRange(item)
		if err != nil {
			return CPUSet{}, fmt.Errorf("CPU list %q: %w", list, err)
		}
		for len(words) <= last/64 {
			words = append(words, 0)
		}
		for cpu := first; cpu <= last; cpu++ {
			words[cpu/64] |= 1 << (cpu % 64)
		}
	}
	return CPUSet{words: words}, nil
}

// Size returns the memory that the set takes, in bytes.
func (s CPUSet) Size() int { return 8 * len(s.words) }

// parseRange parses "8" or "0-3".
func parseRange(item string) (first, last int, err error) {
	from, to, isRange := strings.Cut(item, "-")
	if first, err = parseCPU(from); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return first, first, nil
	}
	if last, err = parseCPU(to); err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, fmt.Errorf("range %q ends before it starts", item)
	}
	return first, last, nil
}

func parseCPU(text string) (int, error) {
	cpu, err := strconv.ParseUint(text, 10, 32)
	if err != nil || cpu >= maxCPU {
		return 0, fmt.Errorf("%q is not a CPU number below %d", text, maxCPU)
	}
	return int(cpu), nil
}

// Len returns the number of CPUs in the set.
func (s CPUSet) Len() int {
	n := 0
	for _, word := range s.words {
		n += bits.OnesCount64(word)
	}
	return n
}

// Min returns the lowest CPU of the set, or -1 if it is empty.
func (s CPUSet) Min() int { return s.next(0) }

// Mask returns the set as a bit mask in the format of sched_setaffinity: bit i of word w is CPU
// 64*w+i.
func (s CPUSet) Mask() []uint64 { return append([]uint64(nil), s.words...) }

// Has reports whether the set contains a CPU.
func (s CPUSet) Has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(s.words) && s.words[cpu/64]&(1<<(cpu%64)) != 0
}

// All yields the numbers of the CPUs in ascending order.
func (s CPUSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for cpu := s.next(0); cpu >= 0 && yield(cpu); cpu = s.next(cpu + 1) {
		}
	}
}

// Union returns the CPUs that are in any of the sets.
func (s CPUSet) Union(others ...CPUSet) CPUSet {
	words := slices.Clone(s.words)
	for _, other := range others {
		words = append(words, make([]uint64, max(0, len(other.words)-len(words)))...)
		for i, word := range other.words {
			words[i] |= word
		}
	}
	return CPUSet{words: words}
}

// With returns the set with the given CPUs added.
func (s CPUSet) With(cpus ...int) CPUSet { return s.Union(NewCPUSet(cpus...)) }

// Without returns the CPUs of s that are not in other.
func (s CPUSet) Without(other CPUSet) CPUSet {
	words := slices.Clone(s.words)
	for i := range min(len(words), len(other.words)) {
		words[i] &^= other.words[i]
	}
	return CPUSetOf(words)
}

// Intersection returns the CPUs that are in both sets.
func (s CPUSet) Intersection(other CPUSet) CPUSet { return s.Without(s.Without(other)) }

// Intersects reports whether the sets have a CPU in common.
func (s CPUSet) Intersects(other CPUSet) bool { return s.common(other) > 0 }

// SubsetOf reports whether other contains all CPUs of s.
func (s CPUSet) SubsetOf(other CPUSet) bool { return s.common(other) == s.Len() }

func (s CPUSet) common(other CPUSet) (n int) {
	for i := range min(len(s.words), len(other.words)) {
		n += bits.OnesCount64(s.words[i] & other.words[i])
	}
	return n
}

// Equal reports whether both sets contain the same CPUs.
func (s CPUSet) Equal(other CPUSet) bool { return slices.Equal(s.words, other.words) }

// String formats the set as a list: "0-3,8". The empty set is "".
func (s CPUSet) String() string {
	var b []byte
	for cpu := s.next(0); cpu >= 0; {
		last := cpu
		for s.Has(last + 1) {
			last++
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(cpu), 10)
		if last > cpu {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
		cpu = s.next(last + 1)
	}
	return string(b)
}

// next returns the first CPU of the set that is at least cpu, or -1.
func (s CPUSet) next(cpu int) int {
	for w := cpu / 64; w < len(s.words); w++ {
		word := s.words[w]
		if w == cpu/64 {
			word &= ^uint64(0) << (cpu % 64)
		}
		if word != 0 {
			return 64*w + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// MarshalText encodes the set as a list.
func (s CPUSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes a list.
func (s *CPUSet) UnmarshalText(text []byte) error {
	set, err := ParseCPUSet(string(text))
	if err == nil {
		*s = set
	}
	return err
}
