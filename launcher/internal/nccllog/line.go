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
	Level  Level
	Host   string // "" with Version
	PID    int
	TID    int
	Device int    // of CUDA or HIP, -1 where it is not known
	Place  string // in NCCL's sources, of a warning: "misc/socket.cc:586 (ncclSocketInit)"
	Text   string
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
			return Line{Level: Version, Device: -1, Text: string(line[i-1:])}, true
		}
		from = i + len(mark)
	}
}

// parseAt reads a line that has "NCCL " at a place.
func parseAt(line []byte, at int) (Line, bool) {
	head, rest := bytes.TrimRight(line[:at], " "), line[at+len("NCCL "):]
	if bytes.HasPrefix(rest, versionMark) && isStamp(head) {
		return Line{Level: Version, Device: -1, Text: string(line[at:])}, true
	}
	for _, l := range levels {
		if bytes.HasPrefix(rest, l.word) {
			found, ok := parseHead(head)
			found.Level, found.Text = l.level, string(rest[len(l.word):])
			return found, ok
		}
	}
	return Line{}, false
}

// isStamp reports whether what stands before the version can be a time: it is short, and has nothing else's words.
func isStamp(head []byte) bool {
	return len(head) <= 64 && (len(head) == 0 || bytes.ContainsAny(head, "0123456789")) &&
		!bytes.ContainsAny(head, "\"'`=")
}

// parseHead reads what stands before the level: "[TIME] HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION)", of which the time
// and the place may be missing.
func parseHead(head []byte) (l Line, ok bool) {
	open := bytes.LastIndex(head, []byte(" ["))
	if open < 0 {
		return l, false
	}
	end := bytes.IndexByte(head[open:], ']')
	if end < 0 {
		return l, false
	}
	var err error
	if l.Device, err = strconv.Atoi(string(head[open+2 : open+end])); err != nil {
		return l, false
	}
	l.Place = string(bytes.TrimSpace(head[open+end+1:]))
	who := head[:open]
	who = who[bytes.LastIndexByte(who, ' ')+1:]
	who, l.TID, ok = cutNumber(who)
	if !ok {
		return l, false
	}
	who, l.PID, ok = cutNumber(who)
	l.Host = string(who)
	return l, ok && l.Host != ""
}

// cutNumber takes ":4250" off the end.
func cutNumber(text []byte) (head []byte, number int, ok bool) {
	colon := bytes.LastIndexByte(text, ':')
	if colon < 0 {
		return nil, 0, false
	}
	number, err := strconv.Atoi(string(text[colon+1:]))
	return text[:colon], number, err == nil && number >= 0
}
