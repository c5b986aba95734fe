package faults

import (
	"os"
	"path/filepath"
	"strings"
)

// resourceFaults are faults of a machine that lacks a resource.
func resourceFaults() []fault {
	met := together(ends(0), contains(onStdout, "rank 0 here\n"), contains(onStdout, "rank 1 here\n"))
	// under runs two ranks under a shell line that executes the launcher.
	under := func(line string, around ...string) func(s *scene) {
		return func(s *scene) {
			s.launch(work{around: append(around, shell(line)...), ranks: 2, program: role("print")})
		}
	}
	ran := func(s *scene) string { return s.path("ran") }
	return []fault{
		{name: "descriptors 0, 1 and 2 closed", criterion: "the ranks run; exit code 0", act: func(s *scene) {
			s.launch(work{around: shell(`exec "$@" <&- >&- 2>&-`), ranks: 1, program: []string{"touch", ran(s)}})
		}, check: func(s *scene, got outcome) {
			ends(0)(s, got)
			_, err := os.Stat(ran(s))
			s.require(err == nil, "the rank did not run: %v", err)
		}},
		{name: "descriptors 0, 1 and 2 closed, a rank fails", criterion: "exit code 3", act: func(s *scene) {
			s.launch(work{around: shell(`exec "$@" <&- >&- 2>&-`), ranks: 2, program: role("quit", "3")})
		}, check: ends(3)},
		{name: "ulimit -n 64", criterion: "the job works", act: under(`ulimit -n 64 && exec "$@"`), check: met},
		{
			name: "ulimit -n 64, 64 ranks", criterion: "the job works, or fails with a message that names the limit",
			act: func(s *scene) {
				s.launch(work{around: shell(`ulimit -n 64 && exec "$@"`), ranks: 64, program: []string{"true"}})
			}, check: func(s *scene, got outcome) {
				named := strings.Contains(got.stderr, "64") && strings.Contains(strings.ToLower(got.stderr), "open")
				s.require(got.code == 0 || named, "exit code %d and no word of the limit: %s", got.code, s.said())
			},
		},
		{name: "256 ranks that end at once", criterion: "exit code 0", act: func(s *scene) {
			s.launch(work{ranks: 256, program: []string{"true"}})
		}, check: ends(0)},
		{
			name: "ulimit -v 1500000, 64 ranks", criterion: "exit code 0", own: true, act: func(s *scene) {
				s.launch(work{around: shell(`ulimit -v 1500000 && exec "$@"`), ranks: 64, program: []string{"true"}})
			}, check: ends(0),
		},
		{
			name:      "ulimit -v 200000",
			criterion: "the job works, or ends with exit code 2 and a message about memory before a rank runs", own: true,
			act: under(`ulimit -v 200000 && exec "$@"`),
			check: func(s *scene, got outcome) {
				s.require(got.code == 0 || got.code == 2 && got.stdout == "" && strings.Contains(got.stderr, "memory"),
					"exit code %d, stdout %q: %s", got.code, got.stdout, s.said())
			},
		},
		{
			name: "ulimit -v too low for a rank", criterion: "exit code 2 and rank 1 named, with its last lines", own: true,
			act: func(s *scene) {
				s.launch(work{ranks: 2, program: append(shell(`[ $RANK = 0 ] || ulimit -v 200000; exec "$@"`),
					role("rank", "default", "none")...)})
			}, check: together(blames(2, "exit code 2"), contains(onStderr, "memory")),
		},
		{name: "TMPDIR missing", criterion: "the job works", act: under(`TMPDIR=/proc/no/such exec "$@"`), check: met},
		{
			name: "TMPDIR read-only", root: true, criterion: "the job works",
			act: under(`mount -t tmpfs -o ro none "$TMPDIR" && exec "$@"`, "unshare", "-m"), check: met,
		},
		{
			name: "/tmp and /dev/shm read-only", root: true, criterion: "the job works",
			act: func(s *scene) {
				// The scene itself may be in /tmp, so that stays writable.
				line := `mount --bind "$0" "$0" && mount --rbind /tmp /tmp && mount -o remount,ro,bind /tmp && mount -t ` +
					`tmpfs -o ro none /dev/shm && TMPDIR=/tmp exec "$@"`
				s.launch(work{around: []string{"unshare", "-m", "/bin/sh", "-c", line, s.dir}, ranks: 2, program: role("print")})
			}, check: met,
		},
		{
			name: "working directory removed", criterion: "the job works, or fails with a message about the directory",
			act: func(s *scene) {
				gone := filepath.Join(s.dir, "gone")
				s.launch(work{
					around: shell(`mkdir ` + gone + ` && cd ` + gone + ` && rmdir ` + gone + ` && exec "$@"`), ranks: 2,
					program: role("print"),
				})
			}, check: func(s *scene, got outcome) {
				s.require(got.code == 0 || strings.Contains(got.stderr, "directory"),
					"exit code %d and no word of the directory: %s", got.code, s.said())
			},
		},
		{
			name: "log directory on a full disk", own: true, root: true,
			criterion: "the console has every line; the lost log is said; exit code 0", act: func(s *scene) {
				line := `mount -t tmpfs -o size=64k none "$TMPDIR" && exec "$@"`
				s.launch(work{
					around: append([]string{"unshare", "-m"}, shell(line)...), ranks: 2,
					options: []string{"--tee", "3", "--log-dir", s.temporary(), "--log-line-prefix-template", "[${rank}] "},
					program: role("pieces", "400", "1000", "1000"),
				})
			}, check: together(ends(0), whole(true, 2, 400, 1000), contains(onStderr, "o space left")),
		},
		{
			name: "log directory not writable", own: true,
			criterion: "a message that names the directory, exit code not 0, or the job works", act: func(s *scene) {
				s.launch(work{ranks: 2, options: []string{"--tee", "3", "--log-dir", "/proc/no/such"}, program: role("print")})
			}, check: func(s *scene, got outcome) {
				s.require(got.code == 0 || strings.Contains(got.stderr, "/proc/no"), "exit code %d: %s", got.code, s.said())
			},
		},
	}
}
