package tcpstore

import (
	"encoding/binary"
	"fmt"
)

// The operations, by their code on the wire. PyTorch only appends codes; the comments name the version that added one
// after 2.2.
const (
	opValidate byte = iota
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
	opPing      // 2.5
	opQueuePush // 2.8
	opQueuePop  // 2.8
	opQueueLen  // 2.8
	opListKeys  // 2.10
	opBarrier   // 2.12
	operations
)

// The one-byte answers of CHECK, WAIT, BARRIER and CANCEL_WAIT.
const (
	replyReady    byte = 0 // every key exists; the wait is over
	replyNotReady byte = 1 // to CHECK: a key is missing
	replyCanceled byte = 1 // to CANCEL_WAIT, even if nothing waited
)

// protocol has the operations' names in messages and their arguments, one letter each:
//
//	k  key        n  i64             K  count, then as many keys
//	v  value      w  u32 or i32      P  count, then as many pairs of key and value
var protocol = [operations]struct{ name, shape string }{
	opValidate:   {"VALIDATE", "w"},
	opSet:        {"SET", "kv"},
	opCompareSet: {"COMPARE_SET", "kvv"},
	opGet:        {"GET", "k"},
	opAdd:        {"ADD", "kn"},
	opCheck:      {"CHECK", "K"},
	opWait:       {"WAIT", "K"},
	opNumKeys:    {"GETNUMKEYS", ""},
	opDelete:     {"DELETE_KEY", "k"},
	opAppend:     {"APPEND", "kv"},
	opMultiGet:   {"MULTI_GET", "K"},
	opMultiSet:   {"MULTI_SET", "P"},
	opCancelWait: {"CANCEL_WAIT", ""},
	opPing:       {"PING", "w"},
	opQueuePush:  {"QUEUE_PUSH", "kv"},
	opQueuePop:   {"QUEUE_POP", "k"},
	opQueueLen:   {"QUEUE_LEN", "k"},
	opListKeys:   {"LIST_KEYS", ""},
	opBarrier:    {"BARRIER", "kn"},
}

// scan finds the end of a request whose bytes come in pieces. It remembers its position, so that it looks at each byte
// once even if a peer sends a long list byte by byte.
type scan struct {
	at    int // bytes of complete arguments
	step  int // index into the shape of the operation
	items int // items of a list that remain
	list  bool
	need  int // the request has at least this many bytes
}

// end returns the length of the request that p begins with, or 0 while it is incomplete. Calls for one request pass all
// bytes that have come so far. The error says what is not allowed; a length is checked as soon as it is known.
func (s *scan) end(p []byte, limits *Limits) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	op := p[0]
	if op >= operations {
		return 0, fmt.Errorf("unknown operation %d", op)
	}
	s.at = max(s.at, 1)
	for shape := protocol[op].shape; s.step < len(shape); s.step++ {
		whole, err := s.argument(shape[s.step], p, limits)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", protocol[op].name, err)
		}
		if !whole {
			return 0, nil
		}
	}
	n := s.at
	*s = scan{}
	return n, nil
}

// argument reports whether the next argument is complete, and steps over it if it is.
func (s *scan) argument(kind byte, p []byte, limits *Limits) (whole bool, err error) {
	switch kind {
	case 'w':
		return s.skip(p, 4), nil
	case 'n':
		return s.skip(p, 8), nil
	case 'k':
		return s.text("key", p, limits.Key)
	case 'v':
		return s.text("value", p, limits.Value)
	}
	return s.listOf(kind, p, limits)
}

func (s *scan) skip(p []byte, n int) bool {
	s.need = s.at + n
	if len(p) < s.need {
		return false
	}
	s.at = s.need
	return true
}

// text steps over a length and as many bytes, if they are complete.
func (s *scan) text(what string, p []byte, most int) (whole bool, err error) {
	s.need = s.at + 8
	if len(p) < s.need {
		return false, nil
	}
	n := binary.LittleEndian.Uint64(p[s.at:])
	if n > uint64(most) {
		return false, fmt.Errorf("a %s of %d bytes; at most %d are allowed", what, n, most)
	}
	return s.skip(p, 8+int(n)), nil
}

func (s *scan) listOf(kind byte, p []byte, limits *Limits) (whole bool, err error) {
	if !s.list {
		if !s.skip(p, 8) {
			return false, nil
		}
		n := binary.LittleEndian.Uint64(p[s.at-8:])
		if n > uint64(limits.Keys) {
			return false, fmt.Errorf("%d keys; at most %d are allowed", n, limits.Keys)
		}
		s.list, s.items = true, int(n)
		if kind == 'P' {
			s.items *= 2
		}
	}
	for ; s.items > 0; s.items-- {
		if kind == 'P' && s.items%2 == 1 {
			whole, err = s.text("value", p, limits.Value)
		} else {
			whole, err = s.text("key", p, limits.Key)
		}
		if !whole {
			return false, err
		}
	}
	s.list = false
	return true, nil
}

// arguments decodes the arguments of a complete request, in order.
type arguments []byte

func (a *arguments) text() []byte {
	n := 8 + binary.LittleEndian.Uint64(*a)
	text := (*a)[8:n:n]
	*a = (*a)[n:]
	return text
}

func (a *arguments) number() int64 {
	n := binary.LittleEndian.Uint64(*a)
	*a = (*a)[8:]
	return int64(n)
}

// appendTexts appends a list of keys to list.
func (a *arguments) appendTexts(list [][]byte) [][]byte {
	for n := a.number(); n > 0; n-- {
		list = append(list, a.text())
	}
	return list
}
