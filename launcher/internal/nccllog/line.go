package nccllog

import (
	"bytes"
	"strconv"
)

// Level is how important NCCL takes a line.
type Level uint8

// The levels.
const (
	Version Level = iota // the version alone, without who says it
	Warn
	Info
	Other // CALL, TRACE, ABORT: only told apart
)

// Line is a line of NCCL's.
type Line struct {
	Level Level
	Text  string
}

var (
	mark        = []byte("CCL ") // every line of NCCL or RCCL has it
	rccl        = []byte("RCCL version")
	versionMark = []byte("version ")
)

// levels are the words behind "NCCL ".
var levels = []struct {
	word  []byte
	level Level
}{
	{[]byte("INFO "), Info},
	{[]byte("WARN "), Warn},
	{[]byte("TRACE "), Other},
	{[]byte("CALL "), Other},
	{[]byte("ABORT "), Other},
}

// Parse reads a line without its end; false says that it is not NCCL's.
func Parse(line []byte) (Line, bool) {
	line = bytes.TrimRight(line, "\r")
	for from := 0; ; {
		i := bytes.Index(line[from:], mark)
		if i < 0 {
			return Line{}, false
		}
		i += from
		if i > 0 && line[i-1] == 'N' {
			if l, ok := parseAt(line, i-1); ok {
				return l, true
			}
		}
		if i > 0 && bytes.HasPrefix(line[i-1:], rccl) && isStamp(line[:i-1]) {
			return Line{Version, string(line[i-1:])}, true
		}
		from = i + len(mark)
	}
}

// parseAt reads a line that has "NCCL " at a place.
func parseAt(line []byte, at int) (Line, bool) {
	head, rest := bytes.TrimRight(line[:at], " "), line[at+len("NCCL "):]
	if bytes.HasPrefix(rest, versionMark) && isStamp(head) {
		return Line{Version, string(line[at:])}, true
	}
	for _, l := range levels {
		if text, ok := bytes.CutPrefix(rest, l.word); ok {
			return Line{l.level, string(text)}, isHead(head)
		}
	}
	return Line{}, false
}

// isStamp reports whether what stands before the version can be a time: it is short, and has nothing else's words.
func isStamp(head []byte) bool {
	return len(head) <= 64 && (len(head) == 0 || bytes.ContainsAny(head, "0123456789")) &&
		!bytes.ContainsAny(head, "\"'`=")
}

// isHead reports whether NCCL writes such before the level: "[TIME] HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION)", of
// which the time and the place may be missing.
func isHead(head []byte) bool {
	open := bytes.LastIndex(head, []byte(" ["))
	if open < 0 {
		return false
	}
	device, _, ok := bytes.Cut(head[open+2:], []byte{']'})
	if _, err := strconv.Atoi(string(device)); !ok || err != nil {
		return false
	}
	who := head[bytes.LastIndexByte(head[:open], ' ')+1 : open]
	for range 2 { // TID and PID
		colon := bytes.LastIndexByte(who, ':')
		if colon < 0 {
			return false
		}
		if n, err := strconv.Atoi(string(who[colon+1:])); err != nil || n < 0 {
			return false
		}
		who = who[:colon]
	}
	return len(who) > 0
}
