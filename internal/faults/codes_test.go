package faults

import (
	"fmt"
	"os"
	"strings"
)

// codeFaults are faults with exit codes that no kill gives.
func codeFaults() []fault {
	all := []fault{
		{name: "all ranks exit 0", criterion: "exit code 0", act: func(s *scene) {
			s.launch(work{ranks: 2, program: role("quit", "0")})
		}, check: ends(0)},
		{name: "all ranks fail at once", criterion: "exit code 5", act: func(s *scene) {
			s.launch(work{ranks: 4, program: role("quit", "5")})
		}, check: ends(5)},
		{
			name:      "ranks fail in consequence",
			criterion: "exit code 3 and rank 1 named, though rank 0 exits 9 when it is asked to end", act: func(s *scene) {
				s.order(s.surround("none", "follow")[1], "exit 3")
			}, check: blames(3, "exit code 3"),
		},
		{
			name:      "rank 1 first, then rank 0",
			criterion: "exit code 3 and rank 1 named, though rank 0 exits 4 when it is asked to end", act: func(s *scene) {
				ranks := s.surround("none", "tell")
				s.order(ranks[1], "exit 3")
				s.until("SIGTERM at rank 0", func() bool { return strings.Contains(s.text("stdout"), "rank 0 got SIGTERM\n") })
				s.order(ranks[0], "exit 4")
			}, check: blames(3, "exit code 3"),
		},
		{
			name: "time-out", own: true, criterion: "exit code 124 and the deadline named, though ranks ignore signals",
			act: func(s *scene) {
				s.launch(work{ranks: 2, options: []string{"--timeout", "1"}, program: role("rank", "ignore", "setsid")})
				s.assembled("setsid")
			}, check: together(ends(124), contains(onStderr, "timed out after ")),
		},
		{name: "unknown option", criterion: "exit code not 0 and the option named; no rank started", act: func(s *scene) {
			s.launch(work{ranks: 2, options: []string{"--no-such-option"}, program: role("print")})
		}, check: func(s *scene, got outcome) {
			s.require(got.code != 0 && !strings.Contains(got.stdout, "here"), "exit code %d, stdout %q", got.code, got.stdout)
			s.require(!s.launcher.ours || got.code == 2, "exit code %d, wanted 2", got.code)
			contains(onStderr, "no-such-option")(s, got)
		}},
	}
	return append(all, startFaults()...)
}

// startFaults are programs that cannot start.
func startFaults() []fault {
	var all []fault
	for _, row := range []struct {
		what string
		code int // 0: 126 or 127
		make func(path string) error
	}{
		{"missing", 127, func(string) error { return nil }},
		{"not executable", 126, func(path string) error { return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o644) }},
		{"a directory", 126, func(path string) error { return os.Mkdir(path, 0o755) }},
		{"of no known format", 126, func(path string) error {
			return os.WriteFile(path, []byte{0x7f, 'E', 'L', 'F', 0, 1, 2, 3}, 0o755)
		}},
		{"a script whose interpreter is missing", 0, func(path string) error {
			return os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o755)
		}},
	} {
		all = append(all, fault{name: "program is " + row.what, criterion: startCriterion(row.code), act: func(s *scene) {
			path := s.path("prog")
			err := row.make(path)
			s.require(err == nil, "%v", err)
			s.launch(work{ranks: 2, program: []string{path}})
		}, check: func(s *scene, got outcome) {
			fits := got.code == row.code || row.code == 0 && (got.code == 126 || got.code == 127)
			s.require(fits, "exit code %d: %s", got.code, s.said())
			contains(onStderr, s.path("prog"))(s, got)
		}})
	}
	return all
}

func startCriterion(code int) string {
	if code == 0 {
		return "exit code 126 or 127 and the program named"
	}
	return fmt.Sprintf("exit code %d and the program named", code)
}
