package placement

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxCPU bounds CPU numbers, so that a mistyped list cannot ask for all memory.
// Linux has at most 8192 CPUs.
const maxCPU = 1 << 16

// CPUSet is a set of logical CPUs by their numbers in the kernel. Its zero value
// is the empty set; a set never changes. It is written as the kernel writes
// lists of CPUs: "0-3,8".
type CPUSet struct {
	words []uint64 // bit i of word w is CPU 64*w+i; the last word is not 0
}

// CPUSetOf makes a set of a bit mask as sched_getaffinity gives it: bit i of
// word w stands for CPU 64*w+i.
func CPUSetOf(mask []uint64) CPUSet {
	for len(mask) > 0 && mask[len(mask)-1] == 0 {
		mask = mask[:len(mask)-1]
	}
	return CPUSet{words: append([]uint64(nil), mask...)}
}

// ParseCPUSet reads the kernel's list format: numbers and ranges between commas,
// such as "0-3,8", with a newline or blanks around it or not. The empty text is
// the empty set.
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

// Size is what the set takes in memory, in bytes.
func (s CPUSet) Size() int { return 8 * len(s.words) }

// parseRange reads "8" or "0-3".
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
		return 0, 0, fmt.Errorf("range %q runs backwards", item)
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

// Mask returns the set as sched_setaffinity takes it: bit i of word w stands for
// CPU 64*w+i.
func (s CPUSet) Mask() []uint64 { return append([]uint64(nil), s.words...) }

// Has reports whether a CPU is in the set.
func (s CPUSet) Has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(s.words) && s.words[cpu/64]&(1<<(cpu%64)) != 0
}

// String writes the set as a list: "0-3,8"; the empty set is "".
func (s CPUSet) String() string {
	text, _ := s.AppendText(nil)
	return string(text)
}

// AppendText appends the list to b. The error is always nil.
func (s CPUSet) AppendText(b []byte) ([]byte, error) {
	start := len(b)
	for cpu := s.next(0); cpu >= 0; {
		last := cpu
		for s.Has(last + 1) {
			last++
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(cpu), 10)
		if last > cpu {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
		cpu = s.next(last + 1)
	}
	return b, nil
}

// next returns the first CPU of the set from cpu on, or -1.
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

// MarshalText makes JSON show the set as a list.
func (s CPUSet) MarshalText() ([]byte, error) { return s.AppendText(nil) }

// UnmarshalText reads what MarshalText wrote.
func (s *CPUSet) UnmarshalText(text []byte) error {
	set, err := ParseCPUSet(string(text))
	if err == nil {
		*s = set
	}
	return err
}
