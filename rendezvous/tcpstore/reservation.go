package tcpstore

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Reservation is a port that is bound but that nobody listens on: it is kept for a program that binds it with
// SO_REUSEADDR and listens, as PyTorch does where rank 0 hosts the store. Linux gives it to nobody who asks for any
// free port.
type Reservation struct {
	fd    int
	claim int // -1: a free port was asked for
	addr  netip.AddrPort
}

// Reserve reserves a port, a free one for port 0, at all addresses of this host, since that is where PyTorch listens;
// host is only what [Reservation.Addr] reports. A port that somebody listens on at any address, or that another process
// has reserved by its number, is a [*PortTakenError].
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

// Addr is the host as it was given and the reserved port.
func (r *Reservation) Addr() netip.AddrPort { return r.addr }

// Close lets the port go; who listens on it by then keeps it. It may be called again.
func (r *Reservation) Close() error {
	if r.fd < 0 {
		return nil
	}
	fd := r.fd
	r.fd = -1
	_ = unix.Close(r.claim)
	return unix.Close(fd)
}
