package process

import (
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sharedDescriptors are our descriptors that several ranks get duplicates of.
type sharedDescriptors struct {
	null int32 // /dev/null
	// lifted are duplicates of 0, 1 and 2 for ranks that use one of them as another stream: the child may overwrite the
	// original before it duplicates it.
	lifted [numStreams]int32
}

var noDescriptors = sharedDescriptors{null: -1, lifted: [numStreams]int32{-1, -1, -1}}

// open opens what the ranks need and is not open yet.
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
		d.lifted[stream.FD], err = duplicate(stream.FD)
	}
	return err
}

func openNull() (int32, error) {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	return aboveStandard(fd)
}

// source returns our descriptor behind a rank's stream n of kind Null or FD.
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
			unix.Close(int(fd))
		}
	}
	*d = noDescriptors
}

// SealInherited sets close-on-exec on all descriptors above 2, so that children do not inherit what this process got
// from its parent. A main program calls it first of all; a library cannot know what its host wants to pass on.
func SealInherited() error {
	if unix.CloseRange(numStreams, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
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
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// openDescriptors lists the open descriptors of this process. The one that it uses itself is in the list, and closed
// again.
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

// GrowDescriptorTable makes room for n descriptors. The kernel doubles the table from 64, and in a process with
// threads each step waits some ten milliseconds for an RCU grace period; taking all steps at once, concurrently with
// other work, saves most of that. It blocks. Errors do not matter, as the table also grows on demand.
func GrowDescriptorTable(n int) {
	if fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, n-1); err == nil { // 2: any open descriptor
		unix.Close(fd)
	}
}
