package faults

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gorun/internal/testneeds"
)

func number(n int) string { return strconv.Itoa(n) }

// slurmStreamFaults are faults of standard input, of output, and of its readers.
func slurmStreamFaults() []slurmFault {
	const megabyte = 1 << 20
	feed := []byte(strings.Repeat("standard input\n", megabyte/15+1)[:megabyte])
	sum := sha256.Sum256(feed)
	nothing := sha256.Sum256(nil)
	read := func(s *slurmScene, got outcome) {
		saysInSlurm(0)(s, got)
		want := []string{fmt.Sprintf("rank 0 read %d bytes %x <nil>\n", megabyte, sum[:8])}
		for rank := 1; rank < 4; rank++ {
			want = append(want, fmt.Sprintf("rank %d read 0 bytes %x <nil>\n", rank, nothing[:8]))
		}
		for _, line := range want {
			s.require(strings.Contains(got.stdout, line), "no line %q: %q", line, got.stdout)
		}
	}
	file := func(s *slurmScene) string {
		err := os.WriteFile(s.path("feed"), feed, 0o644)
		s.require(err == nil, "%v", err)
		return s.path("feed")
	}
	all := []slurmFault{{
		name: "1 MB on standard input of salloc", criterion: "rank 0 reads all of it, others end-of-file",
		act: func(s *slurmScene) {
			in, err := os.Open(file(s))
			s.require(err == nil, "%v", err)
			s.start(work{around: s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2"), program: role("sum"), stdin: in})
		}, check: read,
	}, {
		name:      "1 MB on standard input in a script",
		criterion: "rank 0 reads all of it, others end-of-file; the next job reads the rest of the script's own",
		act: func(s *slurmScene) {
			line := shellLine(s.launcher.command(0, nil, role("sum")))
			s.batch(line+" <"+file(s)+" || exit 9\n"+line+" </dev/null || exit 8\n", "-N2", "--ntasks-per-node=2")
		}, check: read,
	}}
	for _, size := range []struct{ lines, bytes, piece int }{
		{4, 1_000_000, 1_000_000},
		{13, 1_000_000, 65536},
		{300, 3000, 100},
	} {
		all = append(all, slurmFault{
			name: fmt.Sprintf("4 ranks × %d lines of %d B", size.lines, size.bytes), criterion: "none torn or lost",
			act: func(s *slurmScene) {
				s.form(inAllocation, role("pieces", number(size.lines), number(size.bytes), number(size.piece)))
			}, check: func(s *slurmScene, got outcome) {
				saysInSlurm(0)(s, got)
				whole(false, 4, size.lines, size.bytes)(s.scene, got)
			},
		})
	}
	return append(all, unknownPeersInSlurm(), secretInSlurm())
}

// watchedSrun replaces srun by a program that records the data from gorun, and starts srun once a file exists.
func (s *slurmScene) watchedSrun() (around []string) {
	dir := s.path("bin")
	err := os.Mkdir(dir, 0o755)
	s.require(err == nil, "%v", err)
	script := fmt.Sprintf(`#!/bin/sh
export PATH=${PATH#*:}
read line
echo "$line" >%[1]s/invitation
until [ -e %[1]s/go ]; do sleep 0.02; done
mkfifo %[1]s/in
{ echo "$line"; exec cat <&3; } 3<&0 >%[1]s/in 2>/dev/null &
exec srun "$@" <%[1]s/in
`, s.dir)
	err = os.WriteFile(filepath.Join(dir, "srun"), []byte(script), 0o755)
	s.require(err == nil, "%v", err)
	return []string{"env", "PATH=" + dir + ":" + os.Getenv("PATH")}
}

// reported returns the data that gorun passed to srun.
func (s *slurmScene) reported() (token []byte, port int) {
	var invitation struct {
		Token []byte `json:"token"`
		Port  int    `json:"port"`
	}
	s.until("an invitation", func() bool { return json.Unmarshal([]byte(s.text("invitation")), &invitation) == nil })
	s.require(len(invitation.Token) == 32 && invitation.Port > 0, "no token or port")
	return invitation.Token, invitation.Port
}

// goOn lets srun start.
func (s *slurmScene) goOn() {
	err := os.WriteFile(s.path("go"), nil, 0o644)
	s.require(err == nil, "%v", err)
}

// unknownPeersInSlurm connect before the agents do.
func unknownPeersInSlurm() slurmFault {
	var conns []net.Conn
	return slurmFault{
		name: "unknown peers at the head's port", criterion: "idle ones, many, and garbage change nothing; exit code 0",
		act: func(s *slurmScene) {
			r := testneeds.Rand(s.t)
			s.start(work{
				around:  append(s.watchedSrun(), s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2")...),
				program: role("print"),
			})
			_, port := s.reported()
			for range 600 {
				c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", number(port)))
				s.require(err == nil, "%v", err)
				conns = append(conns, c)
				garbage := make([]byte, r.IntN(200))
				for i := range garbage {
					garbage[i] = byte(r.IntN(256))
				}
				_, _ = c.Write(garbage) // it may be closed already
			}
			s.goOn()
		}, check: func(s *slurmScene, got outcome) {
			for _, c := range conns {
				c.Close()
			}
			saysInSlurm(0)(s, got)
			s.require(strings.Count(got.stdout, " here\n") == 4, "%q", got.stdout)
		},
	}
}

// secretInSlurm searches for the secret in places that other users can read.
func secretInSlurm() slurmFault {
	var found []string
	return slurmFault{
		name: "the secret", criterion: "in no argv, environment, log or file of Slurm", act: func(s *slurmScene) {
			around := append(s.watchedSrun(), s.around("salloc", "-Q", "-N2", "--ntasks-per-node=2")...)
			s.start(work{around: around, options: []string{"-v"}, program: role("rank", "ignore", "none")})
			token, _ := s.reported()
			s.goOn()
			ranks := s.assembled("none")
			secrets := []string{
				string(token), base64.StdEncoding.EncodeToString(token)[:40],
				base64.RawURLEncoding.EncodeToString(token)[:40], hex.EncodeToString(token),
			}
			found = s.search(secrets)
			s.finish(ranks)
			s.await("rank", 4)
		}, check: func(s *slurmScene, got outcome) {
			saysInSlurm(0)(s, got)
			s.require(len(found) == 0, "the secret is in %v", found)
		},
	}
}

// search finds the files that contain one of the texts, in /proc and in Slurm's folder.
func (s *slurmScene) search(texts []string) (found []string) {
	look := func(path string) {
		content, _ := os.ReadFile(path) // it may be gone, or a socket
		for _, text := range texts {
			if strings.Contains(string(content), text) {
				found = append(found, path)
			}
		}
	}
	for _, p := range all() {
		look(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		look(fmt.Sprintf("/proc/%d/environ", p.pid))
	}
	_ = filepath.WalkDir(s.c.Dir(), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && path != s.path("invitation") {
			look(path)
		}
		return nil
	})
	return found
}
