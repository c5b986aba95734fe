package testhosts

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"
)

// Impairment describes what happens to the packets from and to a host.
type Impairment struct {
	Delay time.Duration // each way
	// Loss is the fraction of packets that are lost, each way: 0.1 for 10 %. Seed selects them.
	Loss float64
	Seed uint64
	// MaxPacket is the size in bytes of the largest IP packets that pass; larger ones are lost silently, as on a path with
	// a smaller MTU and filtered ICMP. 0: all pass.
	MaxPacket int
	// Ports are the host's TCP ports that accept connections, nil: all. The host's own connections pass. Reject answers
	// others with RST; otherwise their packets are lost.
	Ports  []int
	Reject bool
}

func (i Impairment) none() bool {
	return i.Delay == 0 && i.Loss == 0 && i.MaxPacket == 0 && i.Ports == nil
}

// filter returns a filter for Ethernet frames of one direction; inward is towards the host. An answer goes back to the
// sender.
func (i Impairment) filter(inward bool) func(frame []byte) (passes bool, answer []byte) {
	direction := uint64(0)
	if inward {
		direction = 1
	}
	random := rand.New(rand.NewPCG(i.Seed, direction))
	return func(frame []byte) (bool, []byte) {
		if i.Loss > 0 && random.Float64() < i.Loss {
			return false, nil
		}
		if i.MaxPacket > 0 && len(frame) > ethernetHeader+i.MaxPacket {
			return false, nil
		}
		if i.Ports == nil || !inward {
			return true, nil
		}
		segment := tcpOf(frame)
		if segment == nil || segment[13]&(flagSYN|flagACK) != flagSYN ||
			slices.Contains(i.Ports, int(binary.BigEndian.Uint16(segment[2:]))) {
			return true, nil
		}
		if i.Reject {
			return false, reset(frame)
		}
		return false, nil
	}
}

const (
	ethernetHeader = 14
	ipv4Header     = 20
	ipv6Header     = 40
	tcpHeader      = 20
	protocolTCP    = 6
	flagSYN        = 0x02
	flagRST        = 0x04
	flagACK        = 0x10
)

// tcpOf returns the TCP segment of a frame with IPv4 or IPv6 without options; nil if it has none.
func tcpOf(frame []byte) []byte {
	if len(frame) < ethernetHeader+ipv4Header+tcpHeader {
		return nil
	}
	packet := frame[ethernetHeader:]
	switch {
	case packet[0] == 0x45 && packet[9] == protocolTCP:
		return packet[ipv4Header:]
	case packet[0]>>4 == 6 && len(packet) >= ipv6Header+tcpHeader && packet[6] == protocolTCP:
		return packet[ipv6Header:]
	}
	return nil
}

// reset returns the frame that refuses an IPv4 connection; nil for IPv6.
func reset(frame []byte) []byte {
	if frame[ethernetHeader] != 0x45 {
		return nil
	}
	request := tcpOf(frame)
	answer := make([]byte, ethernetHeader+ipv4Header+tcpHeader)
	copy(answer, frame[6:12])
	copy(answer[6:], frame[:6])
	copy(answer[12:], frame[12:14])
	ip, tcp := answer[ethernetHeader:], answer[ethernetHeader+ipv4Header:]
	ip[0], ip[8], ip[9] = 0x45, 64, protocolTCP
	binary.BigEndian.PutUint16(ip[2:], ipv4Header+tcpHeader)
	copy(ip[12:], frame[ethernetHeader+16:ethernetHeader+20])
	copy(ip[16:], frame[ethernetHeader+12:ethernetHeader+16])
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:ipv4Header], 0))
	copy(tcp, request[2:4])
	copy(tcp[2:], request[:2])
	binary.BigEndian.PutUint32(tcp[8:], binary.BigEndian.Uint32(request[4:])+1)
	tcp[12], tcp[13] = tcpHeader/4<<4, flagRST|flagACK
	binary.BigEndian.PutUint16(tcp[16:], checksum(slices.Concat(ip[12:20], tcp), protocolTCP+tcpHeader))
	return answer
}

// checksum is the Internet checksum (RFC 1071) of an even number of bytes, plus sum.
func checksum(b []byte, sum uint32) uint16 {
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
