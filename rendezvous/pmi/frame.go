package pmi

import (
	"strconv"
	"strings"
)

// frameHeader is how many bytes before a PMI-2 message say its length, in digits.
const frameHeader = 6

// frameLength reads the header of a PMI-2 message: a number with spaces before it
// (MPICH's clients) or behind (Slurm's).
func frameLength(header []byte) (int, error) {
	n, err := strconv.ParseUint(strings.Trim(string(header), " "), 10, 32)
	if err != nil || n > maxFrame {
		return 0, malformed("%s where the length of a PMI-2 message is to be", printable(string(header)))
	}
	return int(n), nil
}

// parseFrame takes the body of a PMI-2 message apart: "cmd=kvs-put;key=k;value=v;".
func parseFrame(body string) (fields, error) {
	if i := strings.IndexByte(body, 0); i >= 0 {
		return nil, malformed("a zero byte in %s", printable(body))
	}
	var f fields
	for piece := range strings.SplitSeq(body, ";") {
		if piece = strings.TrimLeft(piece, " "); piece == "" {
			continue
		}
		key, value, _ := strings.Cut(piece, "=")
		if key == "" {
			return nil, malformed("%s is no key=value", printable(piece))
		}
		if f = append(f, field{key, value}); len(f) > maxEntries {
			return nil, malformed("a message of more than %d fields", maxEntries)
		}
	}
	return f, nil
}

// frame is a PMI-2 answer to a request: pairs are keys and values, the request's thread
// goes along.
func frame(request fields, command string, pairs ...string) string {
	var b strings.Builder
	b.WriteString("cmd=" + command + ";")
	if thread, ok := request.find("thrid"); ok {
		b.WriteString("thrid=" + thread + ";")
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		b.WriteString(pairs[i] + "=" + pairs[i+1] + ";")
	}
	length := strconv.Itoa(b.Len())
	return strings.Repeat(" ", max(0, frameHeader-len(length))) + length + b.String()
}
