package pmi

import (
	"strconv"
	"strings"
)

// frameHeader is the number of digits before a PMI-2 message, which are its length.
const frameHeader = 6

// frameLength parses the header of a PMI-2 message: a number with spaces before it (from MPICH's clients) or after it
// (from Slurm's).
func frameLength(header []byte) (int, error) {
	n, err := strconv.ParseUint(strings.Trim(string(header), " "), 10, 32)
	if err != nil || n > maxFrame {
		return 0, malformed("%s in place of the length of a PMI-2 message", printable(string(header)))
	}
	return int(n), nil
}

// overcount is by how much MPICH's client overstates the length of its messages: it counts the header, and sends as
// many meaningless bytes after the message. Slurm's copy of the client counts right.
const overcount = frameHeader

// overcounts tells the two clients apart by their first message: if the client counts right, it ends with a pair of
// more than six bytes.
func overcounts(body string) bool {
	return len(body) > overcount && body[len(body)-overcount-1] == ';'
}

// parseFrame parses the body of a PMI-2 message: "cmd=kvs-put;key=k;value=v;". A semicolon within a value is doubled.
func parseFrame(body string) (fields, error) {
	if i := strings.IndexByte(body, 0); i >= 0 {
		return nil, malformed("a zero byte in %s", printable(body))
	}
	var f fields
	for rest := strings.TrimLeft(body, " ;"); rest != ""; rest = strings.TrimLeft(rest, " ;") {
		var p field
		end := strings.IndexAny(rest, "=;")
		switch {
		case end < 0:
			p.key, rest = rest, ""
		case rest[end] == ';':
			p.key, rest = rest[:end], rest[end+1:]
		default:
			p.key = rest[:end]
			p.value, rest = cutValue(rest[end+1:])
		}
		if p.key == "" {
			return nil, malformed("%s is not key=value", printable("="+p.value))
		}
		if f = append(f, p); len(f) > maxEntries {
			return nil, malformed("a message of more than %d fields", maxEntries)
		}
	}
	return f, nil
}

// cutValue cuts off a value and the semicolon after it.
func cutValue(text string) (value, rest string) {
	var b strings.Builder
	for {
		piece, after, ended := strings.Cut(text, ";")
		b.WriteString(piece)
		if !ended || !strings.HasPrefix(after, ";") {
			return b.String(), after
		}
		b.WriteByte(';')
		text = after[1:]
	}
}

// frame formats the PMI-2 reply to a request, with the request's thread. pairs are keys and values.
func frame(request fields, command string, pairs ...string) string {
	var b strings.Builder
	b.WriteString("cmd=" + command + ";")
	if thread, ok := request.find("thrid"); ok {
		b.WriteString("thrid=" + thread + ";")
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		b.WriteString(pairs[i] + "=" + strings.ReplaceAll(pairs[i+1], ";", ";;") + ";")
	}
	length := strconv.Itoa(b.Len())
	return strings.Repeat(" ", max(0, frameHeader-len(length))) + length + b.String()
}
