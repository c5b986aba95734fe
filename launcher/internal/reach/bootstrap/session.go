package bootstrap

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/internal/reach/remote"
)

// session runs one script on a host and reads its answers.
type session struct {
	host    remote.Host
	limit   time.Duration // of receiving on the host
	report  func(remote.Progress)
	began   time.Time
	mark    [2]string // in halves: a shell that echoes the command line does not print the whole
	line    string    // that the host's shell runs
	process remote.Process
	answers *answers
	places  []string // that cannot be used, each with its reason
	copying bool
	sent    int64 // bytes
}

func newSession(ctx context.Context, host remote.Host, limit time.Duration) *session {
	report := func(p remote.Progress) { remote.ReportProgress(ctx, p) }
	return &session{host: host, limit: limit, report: report, began: time.Now(), mark: [2]string{halfMark(), halfMark()}}
}

// halfMark returns 64 random bits. Its first byte occurs once.
func halfMark() string {
	var b [8]byte
	rand.Read(b[:])
	return "m" + hex.EncodeToString(b[:])
}

// fill returns the command line for a script. pairs are placeholders of the script and their values.
func (s *session) fill(script string, v *variables, pairs ...string) string {
	bring := strings.ReplaceAll(oneLine(bringScript), "@LIMIT@", strconv.Itoa(int(s.limit.Seconds())))
	pairs = append(pairs, "@MARK1@", s.mark[0], "@MARK2@", s.mark[1], "@WORDS@", v.commands(),
		"@PRIVATE@", oneLine(privateScript), "@PLACES@", oneLine(placeScript), "@BRING@", bring)
	return commandLine(strings.NewReplacer(pairs...).Replace(oneLine(script)))
}

// handler acts on one answer. It returns true after the last one.
type handler func(word, text string) (done bool, err error)

// run starts the line and handles its answers until the last one; the process runs on. An error ends the process.
func (s *session) run(ctx context.Context, line string, handle handler) (err error) {
	s.line = line
	s.report(remote.Progress{Step: remote.StepStart})
	if s.process, err = s.host.Start(ctx, line); err != nil {
		return s.startError(ctx, err)
	}
	s.answers = newAnswers(s.process, s.mark[0]+s.mark[1])
	stop := context.AfterFunc(ctx, func() { s.process.Close() })
	err = s.handleAnswers(ctx, handle)
	if !stop() && err == nil {
		err = s.timeoutError(ctx)
	}
	if err != nil {
		s.process.Close()
	}
	return err
}

func (s *session) handleAnswers(ctx context.Context, handle handler) error {
	for range maxAnswers {
		word, text, err := s.answers.next()
		if err != nil {
			return s.readError(ctx, err)
		}
		switch word {
		case "place":
			s.copying = true
			s.places = append(s.places, text)
			continue
		case "need":
			s.copying = true
		}
		if done, err := handle(word, text); done || err != nil {
			return err
		}
	}
	return s.fail(s.step(), fmt.Sprintf("%d answers without an end", maxAnswers), nil)
}

// stream returns the standard streams of the program that the script has become.
func (s *session) stream() *Stream {
	return &Stream{Process: s.process, rest: s.answers.from, host: s.host.Name(), began: s.began}
}

// step returns the step that the host has reached.
func (s *session) step() remote.Step {
	if s.copying {
		return remote.StepCopy
	}
	return remote.StepStart
}

// With each packet, sshd copies all that it holds for a program: with the 2 MiB that it accepts, receiving the agent
// takes four times the CPU time. So a host gets a small chunk at a time, and a larger one if it is far.
const nearChunk, farChunk = 64 << 10, 256 << 10

// sendParcel sends as many bytes as were announced. It ignores errors of the connection: the host's next answer says
// why.
func (s *session) sendParcel(p parcel, total int64) error {
	from, err := p.open()
	if err != nil {
		return s.fail(remote.StepCopy, err.Error(), err)
	}
	defer from.Close()
	host, asked := s.process.(interface {
		Near() bool
		Settle() bool
	})
	chunk := int64(farChunk)
	if asked && host.Near() {
		chunk = nearChunk
	}
	buffer := make([]byte, chunk)
	for left := p.size; left > 0; {
		n, err := from.Read(buffer[:min(left, chunk)])
		if n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return s.fail(remote.StepCopy, p.path+" was changed while it was being sent: "+err.Error(), err)
		}
		if !s.send(buffer[:n]) {
			return nil
		}
		left -= int64(n)
		s.report(remote.Progress{Step: remote.StepCopy, Sent: s.sent, Total: total})
		asked = asked && host.Settle()
	}
	return nil
}

// send reports whether the host took the bytes. If not, its next answer says why.
func (s *session) send(b []byte) bool {
	n, err := s.process.Write(b)
	s.sent += int64(n)
	return err == nil
}
