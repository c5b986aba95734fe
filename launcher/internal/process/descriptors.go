package process

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedDescriptors are those that several ranks get a copy of.
type sharedDescriptors struct {
	null int32 // /dev/null
	// lifted are copies of 0, 1 and 2 for ranks that have one of these under
	// another number: in the child that number may be overwritten before it is read.
	lifted [numStreams]int32
}

var noDescriptors = sharedDescriptors{null: -1, lifted: [numStreams]int32{-1, -1, -1}}

// open opens what ranks need and is not open yet.
func (d *sharedDescriptors) open(ranks []Rank) error {
	for i := range ranks {
		r := &ranks[i]
		for n, stream := range [numStreams]Stream{r.Stdin, r.Stdout, r.Stderr} {
			if err := d.openFor(n, stream); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *sharedDescriptors) openFor(n int, stream Stream) (err error) {
	switch {
	case stream.Kind == Null && d.null < 0:
		d.null, err = openNull()
	case stream.Kind == FD && stream.FD != n && stream.FD >= 0 && stream.FD < numStreams && d.lifted[stream.FD] < 0:
		d.lifted[stream.FD], err = duplicate(int32(stream.FD))
	}
	return err
}

func openNull() (int32, error) {
	fd, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	return aboveStandard(int32(fd))
}

// source returns our descriptor for a rank's stream n of kind Null or FD.
func (d *sharedDescriptors) source(n int, stream Stream) int32 {
	switch {
	case stream.Kind == Null:
		return d.null
	case stream.FD != n && stream.FD >= 0 && stream.FD < numStreams:
		return d.lifted[stream.FD]
	}
	return int32(stream.FD)
}

func (d *sharedDescriptors) close() {
	for _, fd := range append(d.lifted[:], d.null) {
		if fd >= 0 {
			syscall.Close(int(fd))
		}
	}
	*d = noDescriptors
}

// SealInherited keeps the descriptors that this process got from its own parent,
// apart from 0, 1 and 2, out of everything that it will start. A main program
// calls it first of all; a library cannot know what its host wants to hand on.
func SealInherited() error {
	_, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, numStreams, ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	if e == 0 {
		return nil
	}
	return sealEach() // before Linux 5.11
}

func sealEach() error {
	fds, err := openDescriptors()
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if fd >= numStreams {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// openDescriptors lists the open descriptors of this process, among them one of
// its own that is closed again.
func openDescriptors() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	fds := make([]int, 0, len(entries))
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// GrowDescriptorTable makes room for n descriptors. The kernel's table grows in
// steps from 64, and in a process with threads each step waits some ten
// milliseconds until no thread can still be reading the old table; so it pays to
// take all steps at once, and beside other work. It waits; it reports nothing,
// because without it the table grows when needed.
func GrowDescriptorTable(n int) {
	// Through Syscall, as this blocks. Descriptor 2 stands for any that is open.
	fd, _, e := syscall.Syscall(syscall.SYS_FCNTL, 2, syscall.F_DUPFD_CLOEXEC, uintptr(n-1))
	if e == 0 {
		syscall.Close(int(fd))
	}
}
