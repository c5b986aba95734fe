// Package tcpstore speaks the wire protocol of PyTorch's TCPStore, as server and
// as client, for clients of PyTorch 2.2 to 2.15.
//
// A connection begins with VALIDATE and a magic number, and then carries
// requests: an op code of one byte and its arguments back to back, without a
// length. Numbers are little-endian; texts and values are a u64 length and the
// bytes; lists are a u64 count and the items. Answers come in the order of the
// requests, except that of a WAIT or BARRIER, which comes when it is over:
//
//	client                                server
//	  | -- VALIDATE CE F7 85 3C ------------> |
//	  | -- PING nonce ----------------------> |   the nonce is the client's pid
//	  | <- nonce ---------------------------- |
//	  | -- WAIT [key] ----------------------> |
//	  | -- CANCEL_WAIT ---------------------> |   its timeout is over
//	  | <- 01 (or 00 01: it came just then) - |
//
// PyTorch's client puts "/" before every key of a program; only its own "init/"
// has none. The client of this package does the same, so that both see the same
// keys.
package tcpstore

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// op is a request's code, as in PyTorch's TCPStoreBackend.hpp. Codes were only
// ever appended since PyTorch 2.2.
type op uint8

const (
	opValidate op = iota
	opSet
	opCompareSet
	opGet
	opAdd
	opCheck
	opWait
	opNumKeys
	opDelete
	opAppend
	opMultiGet
	opMultiSet
	opCancelWait
	opPing
	opPush
	opPop
	opQueueLen
	opKeys
	opBarrier
	numOps
)

// magic follows VALIDATE.
const magic = 0x3C85F7CE

// The one byte that answers CHECK, WAIT, BARRIER and CANCEL_WAIT.
const (
	answerReady    = 0 // CHECK: all there; WAIT, BARRIER: over
	answerNotReady = 1 // CHECK
	answerCanceled = 1 // CANCEL_WAIT, always
)

// argument is the shape of a part of a request.
type argument uint8

const (
	argKey argument = iota
	argValue
	argNumber // 8 bytes
	argNonce  // 4 bytes
	argKeys   // a count and keys
	argPairs  // a count and keys with values
)

// requests gives each op its arguments.
var requests = [numOps][]argument{
	opValidate:   {argNonce},
	opSet:        {argKey, argValue},
	opCompareSet: {argKey, argValue, argValue},
	opGet:        {argKey},
	opAdd:        {argKey, argNumber},
	opCheck:      {argKeys},
	opWait:       {argKeys},
	opNumKeys:    {},
	opDelete:     {argKey},
	opAppend:     {argKey, argValue},
	opMultiGet:   {argKeys},
	opMultiSet:   {argPairs},
	opCancelWait: {},
	opPing:       {argNonce},
	opPush:       {argKey, argValue},
	opPop:        {argKey},
	opQueueLen:   {argKey},
	opKeys:       {},
	opBarrier:    {argKey, argNumber},
}

// request is one request whose bytes are all there. The slices point into the
// buffer that it was read from.
type request struct {
	op     op
	texts  [][]byte // keys and values in their order
	number uint64
}

// Limits bound what one client may ask for. Zero fields take the defaults.
type Limits struct {
	Key         int // length of a key in bytes; 64 KiB
	Value       int // length of a value in a request in bytes; 64 MiB
	Keys        int // keys in one request; 131,072
	Connections int // at once; 65,536
}

func (l *Limits) fill() {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Key, 64 << 10}, {&l.Value, 64 << 20}, {&l.Keys, 128 << 10}, {&l.Connections, 64 << 10}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
}

// errIncomplete says that more bytes have to come before a request is whole.
var errIncomplete = errors.New("incomplete")

// parser reads requests out of a buffer. It keeps no bytes, only the space of the
// last request.
type parser struct {
	limits *Limits
	req    request
	rest   []byte
}

// next reads the first request of b and returns the number of its bytes. An
// error other than errIncomplete means that the peer speaks no protocol of ours,
// or asks for more than the limits allow, which is noticed before the bytes come.
func (p *parser) next(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, errIncomplete
	}
	p.req = request{op: op(b[0]), texts: p.req.texts[:0]}
	if p.req.op >= numOps {
		return 0, fmt.Errorf("unknown op code %d", b[0])
	}
	p.rest = b[1:]
	for _, a := range requests[p.req.op] {
		if err := p.argument(a); err != nil {
			return 0, err
		}
	}
	return len(b) - len(p.rest), nil
}

func (p *parser) argument(a argument) (err error) {
	switch a {
	case argKey:
		return p.text("key", p.limits.Key)
	case argValue:
		return p.text("value", p.limits.Value)
	case argNumber:
		p.req.number, err = p.u64()
	case argNonce:
		if len(p.rest) < 4 {
			return errIncomplete
		}
		p.req.number, p.rest = uint64(binary.LittleEndian.Uint32(p.rest)), p.rest[4:]
	case argKeys, argPairs:
		return p.list(a == argPairs)
	}
	return err
}

func (p *parser) u64() (uint64, error) {
	if len(p.rest) < 8 {
		return 0, errIncomplete
	}
	n := binary.LittleEndian.Uint64(p.rest)
	p.rest = p.rest[8:]
	return n, nil
}

func (p *parser) text(what string, most int) error {
	n, err := p.u64()
	if err != nil {
		return err
	}
	if n > uint64(most) {
		return fmt.Errorf("%s of %d bytes: the limit is %d", what, n, most)
	}
	if uint64(len(p.rest)) < n {
		return errIncomplete
	}
	p.req.texts = append(p.req.texts, p.rest[:n])
	p.rest = p.rest[n:]
	return nil
}

func (p *parser) list(withValues bool) error {
	count, err := p.u64()
	if err != nil {
		return err
	}
	if count > uint64(p.limits.Keys) {
		return fmt.Errorf("%d keys in one request: the limit is %d", count, p.limits.Keys)
	}
	for range count {
		if err := p.text("key", p.limits.Key); err != nil {
			return err
		}
		if !withValues {
			continue
		}
		if err := p.text("value", p.limits.Value); err != nil {
			return err
		}
	}
	return nil
}

// oldHello is how a client of PyTorch 2.0 or 2.1, which knew no VALIDATE, begins:
// ADD, then 3, of the key "init/".
var oldHello = []byte("\x03\x05\x00\x00\x00\x00\x00\x00\x00init/")

// hello checks the first bytes of a connection. A nil error means that they
// begin a session; errIncomplete that it cannot be said yet.
func hello(b []byte) error {
	want := []byte{byte(opValidate), 0xCE, 0xF7, 0x85, 0x3C}
	if len(b) > 0 && b[0] == oldHello[0] {
		want = oldHello
	}
	n := min(len(b), len(want))
	if string(b[:n]) != string(want[:n]) {
		return fmt.Errorf("no store client (it began with % x)", b[:min(len(b), 16)])
	}
	switch {
	case n < len(want):
		return errIncomplete
	case b[0] == oldHello[0]:
		return errors.New("client is torch < 2.2, not supported: use PyTorch 2.2 or later")
	}
	return nil
}
