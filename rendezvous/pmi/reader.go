package pmi

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// reader reads requests from a stream.
type reader struct {
	in         *bufio.Reader
	framed     bool // PMI-2 was agreed on; a program that begins anew still begins with a line
	overcounts bool // the client does, see overcount
}

// request is a request of a client.
type request struct {
	fields
	framed bool     // of PMI-2
	blocks []fields // of a spawn in PMI-1
	reply  string   // the name of its reply, once the command is known
}

func newReader(stream io.Reader) *reader { return &reader{in: bufio.NewReaderSize(stream, 2048)} }

// next returns the next request, an error of the stream such as io.EOF, or a malformedError.
func (r *reader) next() (request, error) {
	first, err := r.in.Peek(1)
	switch {
	case err != nil:
		return request{}, err
	case r.framed && (first[0] == ' ' || first[0] >= '0' && first[0] <= '9'):
		return r.frame()
	case first[0] == 'c':
		if err = r.expect("cmd="); err == nil {
			return r.line()
		}
		return request{}, err
	case first[0] == 'm':
		if err = r.expect("mcmd="); err == nil {
			return r.spawn()
		}
		return request{}, err
	}
	return request{}, r.garbage()
}

// expect checks that prefix comes next, without waiting for more bytes than show that it does not.
func (r *reader) expect(prefix string) error {
	for n := 2; n <= len(prefix); n++ {
		head, err := r.in.Peek(n)
		if !strings.HasPrefix(prefix, string(head)) {
			return r.garbage()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// garbage returns the error for bytes that begin no request.
func (r *reader) garbage() error {
	head, _ := r.in.Peek(min(r.in.Buffered(), 60))
	return malformed("%s is not a PMI request, which begins with cmd=", printable(string(head)))
}

func (r *reader) line() (request, error) {
	text, err := r.text(maxLine)
	if err != nil {
		return request{}, err
	}
	f, err := parseLine(text)
	return request{fields: f}, err
}

// text reads to the end of a line of at most limit bytes.
func (r *reader) text(limit int) (string, error) {
	var text []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		if len(text)+len(piece) > limit {
			return "", malformed("a request of more than %d bytes that begins with %s", limit,
				printable(string(append(text, piece...))))
		}
		switch {
		case err == nil && text == nil:
			return string(piece[:len(piece)-1]), nil
		case err == nil:
			text = append(text, piece...)
			return string(text[:len(text)-1]), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
		text = append(text, piece...)
	}
}

// frame reads a request of PMI-2.
func (r *reader) frame() (request, error) {
	header, err := r.in.Peek(frameHeader)
	if err != nil {
		return request{}, err
	}
	length, err := frameLength(header)
	if err != nil {
		return request{}, err
	}
	if _, err = r.in.Discard(frameHeader); err != nil {
		return request{}, err
	}
	var body strings.Builder
	if _, err = io.CopyN(&body, r.in, int64(length)); err != nil {
		return request{}, err
	}
	f, err := parseFrame(r.trim(body.String()))
	return request{fields: f, framed: true}, err
}

// trim cuts off what the client counts too much.
func (r *reader) trim(body string) string {
	// a client that was refused aborts as its first message
	if strings.HasPrefix(body, "cmd=fullinit;") || !r.overcounts && strings.HasPrefix(body, "cmd=abort;") {
		r.overcounts = overcounts(body)
	}
	if r.overcounts && len(body) > overcount {
		return body[:len(body)-overcount]
	}
	return body
}

// spawn reads a spawn of PMI-1: totspawns blocks of lines of key=value from "mcmd=spawn" to "endcmd".
func (r *reader) spawn() (request, error) {
	q := request{fields: fields{{"cmd", "spawn"}}}
	left, entries := maxSpawn, 0
	for {
		block, err := r.block(&left, &entries)
		if err != nil {
			return q, err
		}
		q.blocks = append(q.blocks, block)
		total, err := block.number("totspawns", 1, maxEntries)
		if err != nil {
			return q, err
		}
		if len(q.blocks) >= total {
			return q, nil
		}
	}
}

// block reads one block. left is how many more bytes the spawn may have, entries how many fields it has.
func (r *reader) block(left, entries *int) (fields, error) {
	block := fields{{"cmd", "spawn"}}
	for first := true; ; first = false {
		line, err := r.text(maxLine)
		if err != nil {
			return nil, err
		}
		if *left -= len(line) + 1; *left < 0 {
			return nil, malformed("a spawn of more than %d bytes", maxSpawn)
		}
		key, value, ok := strings.Cut(line, "=")
		switch {
		case first != (line == "mcmd=spawn"):
			return nil, malformed("%s in a spawn, whose blocks begin with mcmd=spawn and end with endcmd", printable(line))
		case first:
			continue
		case line == "endcmd":
			return block, nil
		case !ok || key == "" || strings.IndexByte(line, 0) >= 0:
			return nil, malformed("%s in a spawn is not key=value", printable(line))
		}
		block = append(block, field{key, value})
		if *entries++; *entries > maxEntries {
			return nil, malformed("a spawn of more than %d fields", maxEntries)
		}
	}
}
