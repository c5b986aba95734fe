package faults

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// outputFaults are faults about lines of output.
func outputFaults() []fault {
	labelled := func(label bool, ranks, lines, size, piece int) func(s *scene) {
		return func(s *scene) {
			var options []string
			if label {
				options = s.launcher.label
				s.require(options != nil, "no option that labels lines is known")
			}
			s.launch(work{ranks: ranks, options: options, program: role("pieces", strconv.Itoa(lines), strconv.Itoa(size),
				strconv.Itoa(piece))})
		}
	}
	return []fault{
		{name: "half a line before SIGKILL", criterion: "the half line is kept; exit code 137", act: func(s *scene) {
			s.launch(work{ranks: 2, program: role("half")})
		}, check: together(ends(137), contains(onStdout, "a whole line\nhalf a li"))},
		{
			name: "lines of 1 MB", criterion: "2 ranks × 4 lines of 1 MB: none torn or lost",
			act: labelled(false, 2, 4, 1_000_000, 1_000_000), check: together(ends(0), whole(false, 2, 4, 1_000_000)),
		},
		{
			name: "lines in pieces", criterion: "4 ranks × 200 lines of 3 kB in pieces of 100 B: none torn or lost",
			act: labelled(false, 4, 200, 3000, 100), check: together(ends(0), whole(false, 4, 200, 3000)),
		},
		{
			name: "labelled lines in pieces", criterion: "the same with labels: none torn, lost or with another rank's label",
			act: labelled(true, 4, 200, 3000, 100), check: together(ends(0), whole(true, 4, 200, 3000)),
		},
		{
			name:      "labelled lines of 1 MB",
			criterion: "8 ranks × 1 line of 1 MB with labels: none torn, lost or with another rank's label",
			act:       labelled(true, 8, 1, 1_000_000, 65536), check: together(ends(0), whole(true, 8, 1, 1_000_000)),
		},
		{
			name: "lines in pieces, rank SIGKILL", criterion: "what a rank wrote before its death is there, whole",
			act: func(s *scene) {
				s.launch(work{ranks: 2, program: role("rank", "default", "none")})
				ranks := s.await("rank", 2)
				s.order(ranks[1], "say 500")
				_, err := ranks[1].words.ReadString('\n')
				s.require(err == nil, "rank 1 is gone: %v", err)
				s.order(ranks[1], "signal 9")
			}, check: func(s *scene, got outcome) {
				ends(137)(s, got)
				for n := range 500 {
					contains(onStdout, fmt.Sprintf("rank 1 says line %d\n", n))(s, got)
				}
			},
		},
		{
			name: "reader gone", criterion: "exit code 141, or killed by SIGPIPE, as any program in a pipe",
			act: func(s *scene) {
				reader, writer, err := os.Pipe()
				s.require(err == nil, "%v", err)
				defer reader.Close()
				s.launch(work{ranks: 2, program: role("chatter"), stdout: writer})
				_, err = bufio.NewReader(reader).ReadString('\n')
				s.require(err == nil, "no line came: %v: %s", err, s.said())
			}, check: ends(141),
		},
		{name: "standard output is a full disk", criterion: "said on standard error, exit code not 0", act: func(s *scene) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			s.require(err == nil, "%v", err)
			s.launch(work{ranks: 2, program: role("pieces", "20", "1000", "1000"), stdout: full})
		}, check: func(s *scene, got outcome) {
			s.require(got.code != 0, "exit code 0: %s", s.said())
			s.require(!s.launcher.ours || got.code == 125, "exit code %d, wanted 125", got.code)
			contains(onStderr, "o space left")(s, got)
		}},
	}
}

// whole checks that standard output has all lines of each rank, unchanged.
func whole(label bool, ranks, lines, size int) func(*scene, outcome) {
	return func(s *scene, got outcome) {
		wanted := map[string]int{}
		for rank := range ranks {
			for n := range lines {
				wanted[line(rank, n, size)] = rank
			}
		}
		torn, mistagged := 0, 0
		for text := range strings.Lines(got.stdout) {
			tagged := ""
			if label {
				if match := s.launcher.tag.FindStringSubmatch(text[:min(len(text), 100)]); match != nil {
					tagged, text = match[1], text[len(match[0]):]
				}
			}
			rank, known := wanted[text]
			delete(wanted, text)
			switch {
			case !known:
				torn++
			case label && tagged != strconv.Itoa(rank):
				mistagged++
			}
		}
		s.require(torn+mistagged+len(wanted) == 0, "of %d lines %d are missing as written; %d torn, %d with a wrong label",
			ranks*lines, len(wanted), torn, mistagged)
	}
}

// stdinFaults are faults about standard input.
func stdinFaults() []fault {
	const megabyte = 1 << 20
	feed := strings.Repeat("standard input\n", megabyte/15+1)[:megabyte]
	nothing := fmt.Sprintf("%x", sha256.New().Sum(nil)[:8])
	sum := sha256.Sum256([]byte(feed))
	first := fmt.Sprintf("rank 0 read %d bytes %x <nil>\n", megabyte, sum[:8])
	return []fault{
		{
			name: "1 MB on standard input", criterion: "rank 0 reads all of it, rank 1 end-of-file; exit code 0",
			act: func(s *scene) {
				reader, writer, err := os.Pipe()
				s.require(err == nil, "%v", err)
				go func() {
					defer writer.Close()
					_, _ = writer.WriteString(feed) // a launcher that does not read it fails the check
				}()
				s.launch(work{ranks: 2, program: role("sum"), stdin: reader})
			}, check: together(ends(0), contains(onStdout, first),
				contains(onStdout, "rank 1 read 0 bytes "+nothing+" <nil>\n")),
		},
		{
			name: "standard input left open", criterion: "an open, unread standard input keeps no job alive; exit code 0",
			act: func(s *scene) {
				reader, writer, err := os.Pipe()
				s.require(err == nil, "%v", err)
				defer writer.Close()
				s.launch(work{ranks: 2, program: role("print"), stdin: reader})
				s.result()
			}, check: ends(0),
		},
		{
			name: "standard input full and unread", criterion: "the same when nobody reads the 64 KiB that are in it",
			act: func(s *scene) {
				reader, writer, err := os.Pipe()
				s.require(err == nil, "%v", err)
				defer writer.Close()
				_, err = writer.WriteString(feed[:65536])
				s.require(err == nil, "%v", err)
				s.launch(work{ranks: 2, program: role("print"), stdin: reader})
				s.result()
			}, check: ends(0),
		},
		{
			name:      "standard input closed",
			criterion: "ranks read end-of-file, or what a closed one gives, and end; exit code 0", act: func(s *scene) {
				s.launch(work{around: shell(`exec "$@" <&-`), ranks: 2, program: role("sum")})
			}, check: together(ends(0), contains(onStdout, "rank 0 read 0 bytes"), contains(onStdout, "rank 1 read 0 bytes")),
		},
	}
}
