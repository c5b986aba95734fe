package placement

import "slices"

// cpuSetOf makes a set of single CPUs.
func cpuSetOf(cpus ...int) CPUSet {
	if len(cpus) == 0 {
		return CPUSet{}
	}
	words := make([]uint64, slices.Max(cpus)/64+1)
	for _, cpu := range cpus {
		words[cpu/64] |= 1 << (cpu % 64)
	}
	return CPUSet{words: words}
}

// union returns the CPUs that are in any of the sets.
func union(sets ...CPUSet) CPUSet {
	longest := 0
	for _, s := range sets {
		longest = max(longest, len(s.words))
	}
	words := make([]uint64, longest)
	for _, s := range sets {
		for i, word := range s.words {
			words[i] |= word
		}
	}
	return CPUSet{words: words}
}

// without returns the CPUs of s that are not in other.
func (s CPUSet) without(other CPUSet) CPUSet {
	words := append([]uint64(nil), s.words...)
	for i := range min(len(words), len(other.words)) {
		words[i] &^= other.words[i]
	}
	return CPUSetOf(words)
}

// meets reports whether the sets have a CPU in common.
func (s CPUSet) meets(other CPUSet) bool {
	for i := range min(len(s.words), len(other.words)) {
		if s.words[i]&other.words[i] != 0 {
			return true
		}
	}
	return false
}

// within reports whether all CPUs of s are in other.
func (s CPUSet) within(other CPUSet) bool {
	for i, word := range s.words {
		if i < len(other.words) {
			word &^= other.words[i]
		}
		if word != 0 {
			return false
		}
	}
	return true
}

// equal reports whether both sets have the same CPUs.
func (s CPUSet) equal(other CPUSet) bool { return s.within(other) && other.within(s) }

// each is a loop over the numbers of the CPUs in ascending order.
func (s CPUSet) each(yield func(cpu int) bool) {
	for cpu := s.next(0); cpu >= 0 && yield(cpu); cpu = s.next(cpu + 1) {
	}
}

// list returns the numbers of the CPUs in ascending order.
func (s CPUSet) list() []int {
	var cpus []int
	for cpu := s.next(0); cpu >= 0; cpu = s.next(cpu + 1) {
		cpus = append(cpus, cpu)
	}
	return cpus
}
