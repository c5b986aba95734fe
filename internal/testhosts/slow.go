package testhosts

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Slow delays every packet from and to a host, each way; 0 undoes it.
func (s *Set) Slow(host string, delay time.Duration) error {
	return s.Impair(host, Impairment{Delay: delay})
}

// Impair degrades the link of a host; the zero value undoes it. The host's cable moves to a bridge of its own, and this
// process forwards frames between the two bridges with two TAP devices:
//
//	eth0 === cable - slow bridge - near tap --- this process --- far tap - br0
//
// Many kernels of virtual machines lack netem, which would do the same. The impairment ends with this process.
func (s *Set) Impair(host string, how Impairment) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if h.relay != nil {
		h.relay.close()
		h.relay = nil
		err = s.links.ip(fmt.Sprintf("link set %s master %s\nlink del %s\n", h.cable, mainBridge, h.slowBridge()))
	}
	if err != nil || how.none() {
		return err
	}
	near, far := h.cable+"near", h.cable+"far"
	if h.relay, err = startRelay(s.links, near, far, how); err != nil {
		return fmt.Errorf("impair %s: %w", host, err)
	}
	return s.links.ip(bridgeLines(h.slowBridge()) + fmt.Sprintf(
		"link set %s master %s up\nlink set %s master %s up\nlink set %s master %s\n",
		near, h.slowBridge(), far, mainBridge, h.cable, h.slowBridge()))
}

// slowBridge is a host's own bridge while it is impaired, bridge the one that its cable is on.
func (h *host) slowBridge() string { return h.cable + "slow" }

func (h *host) bridge() string {
	if h.relay != nil {
		return h.slowBridge()
	}
	return mainBridge
}

// relay forwards frames between two TAP devices until it is closed.
type relay struct {
	taps    [2]*os.File
	stopped chan struct{}
	work    sync.WaitGroup
}

// frame is a delayed frame.
type frame struct {
	bytes []byte
	due   time.Time
}

// maxFrames is the number of frames on a cable. A reader then waits, and the kernel's queue overflows.
const maxFrames = 4096

// startRelay makes the devices in a space's network namespace.
func startRelay(where *space, near, far string, how Impairment) (*relay, error) {
	r := &relay{stopped: make(chan struct{})}
	for i, name := range []string{near, far} {
		tap, err := openTap(where, name)
		if err != nil {
			return nil, errors.Join(err, r.taps[0].Close())
		}
		r.taps[i] = tap
	}
	r.forward(r.taps[0], r.taps[1], how.Delay, how.filter(false))
	r.forward(r.taps[1], r.taps[0], how.Delay, how.filter(true))
	return r, nil
}

// forward forwards frames in one direction if they pass the filter.
func (r *relay) forward(from, to *os.File, delay time.Duration, pass func(frame []byte) (passes bool, answer []byte)) {
	underway := make(chan frame, maxFrames)
	r.work.Go(func() {
		defer close(underway)
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil { // the device is down
				select {
				case <-r.stopped:
					return
				case <-time.After(pause):
				}
				continue
			}
			if passes, answer := pass(buffer[:n]); !passes {
				_, _ = from.Write(answer) // a nil answer writes nothing
				continue
			}
			select {
			case underway <- frame{append([]byte(nil), buffer[:n]...), time.Now().Add(delay)}:
			case <-r.stopped:
				return
			}
		}
	})
	r.work.Go(func() {
		for f := range underway {
			select {
			case <-r.stopped:
				return
			case <-time.After(time.Until(f.due)):
				_, _ = to.Write(f.bytes) // a frame that cannot be sent is lost, as on any cable
			}
		}
	})
}

// close stops the relay and removes its devices.
func (r *relay) close() {
	close(r.stopped)
	_ = errors.Join(r.taps[0].Close(), r.taps[1].Close())
	r.work.Wait()
}

// openTap makes a TAP device in a space's network namespace. Closing the file removes it.
func openTap(where *space, name string) (tap *os.File, err error) {
	onOwnThread(func() {
		if err = unix.Setns(int(where.network.Fd()), unix.CLONE_NEWNET); err == nil {
			tap, err = makeTap(name)
		}
	})
	return tap, err
}

// onOwnThread calls do on a thread that ends afterwards. It avoids the main thread, whose network namespace would
// count as
// that of the process, also for Down.
func onOwnThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			do()
			return // locked: the thread ends with this goroutine
		}
		onOwnThread(do) // on another thread, as this goroutine keeps the main one
		runtime.UnlockOSThread()
	}()
	<-done
}

// makeTap makes the device in the calling thread's network namespace.
func makeTap(name string) (*os.File, error) {
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: device, Err: err}
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}
