package tcpstore

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Reservation is a port that is bound without a listener. It is kept for a program that binds it with SO_REUSEADDR and
// listens, like PyTorch when rank 0 hosts the store. Linux does not assign it to others that request any free port.
type Reservation struct {
	fd    int
	claim int // -1 if any free port was requested
	addr  netip.AddrPort
}

// Reserve reserves a port at all addresses of this host, since PyTorch listens at all; 0 is any free port. host only
// affects [Reservation.Addr]. If another process listens on the port at any address, or has reserved it by number, the
// error is a [*PortTakenError].
func Reserve(host string, port int) (*Reservation, error) {
	ip, err := address(host)
	if err != nil {
		return nil, err
	}
	claimed := -1
	if port != 0 {
		if claimed, err = claim(port); err != nil {
			return nil, err
		}
	}
	fd, addr, err := bind("::", port)
	var taken *PortTakenError
	if errors.As(err, &taken) {
		taken.Host = ip.String()
	}
	if err != nil {
		_ = unix.Close(claimed)
		return nil, err
	}
	return &Reservation{fd: fd, claim: claimed, addr: netip.AddrPortFrom(ip, addr.Port())}, nil
}

// Addr returns the host that was given and the reserved port.
func (r *Reservation) Addr() netip.AddrPort { return r.addr }

// Close releases the port. A program that listens on it keeps it. Close may be called again.
func (r *Reservation) Close() error {
	if r.fd < 0 {
		return nil
	}
	fd := r.fd
	r.fd = -1
	_ = unix.Close(r.claim)
	return unix.Close(fd)
}
