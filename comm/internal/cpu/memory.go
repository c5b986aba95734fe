package cpu

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// anonymous creates an unnamed, sparse file of size bytes.
func anonymous(size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("gorun-comm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "gorun-comm")
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		file.Close()
		return nil, fmt.Errorf("%d bytes of shared memory: %w", size, err)
	}
	return file, nil
}

func mapped(file *os.File, size int) ([]byte, error) {
	if file == nil {
		return nil, errors.New("the shared memory did not arrive: this process has no free descriptor (ulimit -n)")
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < int64(size) {
		return nil, fmt.Errorf("the shared memory has %d bytes, not %d: do all ranks run the same program?", info.Size(),
			size)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes of shared memory: %w", size, err)
	}
	return memory, nil
}

func unmap(memory []byte) error {
	if memory == nil {
		return nil
	}
	return unix.Munmap(memory)
}
