package nccllog

import (
	"bytes"
	"strconv"
)

// Level is the log level of a line.
type Level uint8

// The levels.
const (
	Version Level = iota // only the version, without a process
	Warn
	Info
	Other // CALL, TRACE or ABORT
)

// Line is a line of NCCL's log.
type Line struct {
	Level Level
	Text  string
}

var (
	mark        = []byte("CCL ") // in every line of NCCL or RCCL
	rccl        = []byte("RCCL version")
	versionMark = []byte("version ")
)

// levels are the words that follow "NCCL ".
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

// Parse reads a line without its line end. ok is false if it is not NCCL's.
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

// parseAt reads a line with "NCCL " at an offset.
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

// isStamp reports whether the text before a version can be a timestamp.
func isStamp(head []byte) bool {
	return len(head) <= 64 && (len(head) == 0 || bytes.ContainsAny(head, "0123456789")) &&
		!bytes.ContainsAny(head, "\"'`=")
}

// isHead reports whether the text before a level has NCCL's format: "[TIME] HOST:PID:TID [DEVICE] FILE:LINE
// (FUNCTION)", in which the time and the source location are optional.
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
