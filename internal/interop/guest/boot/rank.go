package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/internal/interop/guest"
)

// pages is how many pages a rank touches, enough for interleaving to use every node.
const pages = 32

// beRank prints the CPUs and memory of this rank.
func beRank() error {
	me := guest.Rank{Rank: os.Getenv("RANK"), Threads: os.Getenv("OMP_NUM_THREADS"), AwayCPU: -1}
	var err error
	if me.CPUs, err = allowedCPUs(); err != nil {
		return err
	}
	if me.Policy, err = memoryPolicy(); err != nil {
		return err
	}
	if me.Home, err = touch(); err != nil {
		return err
	}
	if me.AwayCPU = goAway(); me.AwayCPU >= 0 {
		if me.Away, err = touch(); err != nil {
			return err
		}
	}
	line, err := json.Marshal(me)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}

// allowedCPUs is the CPU mask in the kernel's format.
func allowedCPUs() (string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list), nil
		}
	}
	return "", errors.New("/proc/self/status has no Cpus_allowed_list")
}

// memoryPolicy is the policy of the first mapping. This mapping has no policy of its own, so it shows that of the
// process. A line is
//
//	00400000 prefer:1 file=/init mapped=170 N0=90 N1=80 kernelpagesize_kB=4
func memoryPolicy() (string, error) {
	text, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(text))
	if len(words) < 3 {
		return "", fmt.Errorf("/proc/self/numa_maps: %q", text)
	}
	if words[2] == "(many)" || strings.HasPrefix(words[2], "(many):") {
		return words[1] + " " + words[2], nil
	}
	return words[1], nil
}

// touch writes to new pages and returns the NUMA nodes that hold them. move_pages(2) without target nodes only
// reports them.
func touch() ([]int, error) {
	size := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, pages*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	defer unix.Munmap(memory)
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	var addresses [pages]unsafe.Pointer
	var nodes [pages]int32
	for i := range pages {
		memory[i*size] = 1
		addresses[i] = unsafe.Pointer(&memory[i*size])
	}
	_, _, e := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, pages, uintptr(unsafe.Pointer(&addresses)), 0,
		uintptr(unsafe.Pointer(&nodes)), 0)
	if e != 0 {
		return nil, fmt.Errorf("move_pages: %w", e)
	}
	var found []int
	for _, node := range nodes {
		if node < 0 {
			return nil, fmt.Errorf("move_pages of a page: %w", unix.Errno(-node))
		}
		found = append(found, int(node))
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// goAway moves this thread to the last CPU outside its mask, and returns it, or -1 if there is no such CPU. The
// memory policy stays.
func goAway() int {
	var given unix.CPUSet
	if err := unix.SchedGetaffinity(0, &given); err != nil {
		return -1
	}
	for cpu := 63; cpu >= 0; cpu-- {
		var one unix.CPUSet
		one.Set(cpu)
		if !given.IsSet(cpu) && unix.SchedSetaffinity(0, &one) == nil {
			return cpu
		}
	}
	return -1
}
