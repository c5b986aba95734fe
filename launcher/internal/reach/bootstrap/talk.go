package bootstrap

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// talk is what is said to and heard from one script on a host.
type talk struct {
	host    remote.Host
	report  func(remote.Progress)
	began   time.Time
	mark    [2]string // halves, so that a shell that echoes the line does not say it
	process remote.Process
	answers *answers
	places  []string // where nothing could be put, each with its reason
	copying bool
	sent    int64 // bytes
}

func newTalk(ctx context.Context, host remote.Host) *talk {
	report := func(now remote.Progress) { remote.ReportProgress(ctx, now) }
	return &talk{host: host, report: report, began: time.Now(), mark: [2]string{nonce(), nonce()}}
}

// nonce is half a mark: 64 random bits.
func nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return "m" + hex.EncodeToString(b[:])
}

// fill makes a script the command line, with what stands for each name in it.
func (t *talk) fill(script string, w *words, pairs ...string) string {
	pairs = append(pairs, "@MARK1@", t.mark[0], "@MARK2@", t.mark[1], "@WORDS@", w.lines(),
		"@PRIVATE@", joined(privateScript), "@PLACES@", joined(placeScript), "@BRING@", joined(bringScript))
	return commandLine(strings.NewReplacer(pairs...).Replace(joined(script)))
}

// hold starts the line and has each answer judged until that is done; the process
// runs on. An error ends the process.
func (t *talk) hold(ctx context.Context, line string, judge func(ctx context.Context, word, text string) (bool,
	error),
) (err error) {
	t.report(remote.Progress{Step: remote.StepStart})
	if t.process, err = t.host.Start(ctx, line); err != nil {
		return t.unreached(ctx, err)
	}
	t.answers = newAnswers(t.process, t.mark[0]+t.mark[1])
	stop := context.AfterFunc(ctx, func() { t.process.Close() })
	err = t.converse(ctx, judge)
	if !stop() && err == nil {
		err = t.late(ctx)
	}
	if err != nil {
		t.process.Close()
	}
	return err
}

// converse hears answers until one of them is the last.
func (t *talk) converse(ctx context.Context, judge func(ctx context.Context, word, text string) (bool, error)) error {
	for range maxAnswers {
		word, text, err := t.answers.next()
		if err != nil {
			return t.ended(ctx, err)
		}
		switch word {
		case "place":
			t.copying = true
			t.places = append(t.places, text)
			continue
		case "need":
			t.copying = true
		}
		if done, err := judge(ctx, word, text); done || err != nil {
			return err
		}
	}
	return t.fail(t.step(), fmt.Sprintf("it gave %d answers, and none of them was the last", maxAnswers), "", nil)
}

// step is where the host stands.
func (t *talk) step() remote.Step {
	if t.copying {
		return remote.StepCopy
	}
	return remote.StepStart
}

// fail is an error about this host.
func (t *talk) fail(step remote.Step, text, hint string, cause error) *remote.Error {
	failure := remote.Failed(t.host.Name(), step, t.began, printable.Short(text), cause)
	failure.Hint = hint
	if named, ok := t.host.(interface{ Target() string }); ok {
		failure.Target = printable.Text(named.Target())
	}
	return failure
}

// late is the end of ctx before the last answer.
func (t *talk) late(ctx context.Context) error {
	return t.fail(t.step(), "it was not ready in time"+t.lastWords(": it says "), "", context.Cause(ctx))
}

// unreached is the failure of the way to the host, which names its own step where it
// knows one.
func (t *talk) unreached(ctx context.Context, err error) error {
	var known *remote.Error
	if errors.As(err, &known) {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t.fail(remote.StepStart, err.Error(), "", err)
}

// chunk is how many bytes are sent at once, and what progress is told by.
const chunk = 256 << 10

// sendFile writes one file's bytes, exactly as many as were announced. A host that
// takes no more has said why: that is no error here, as converse hears it next.
func (t *talk) sendFile(path string, size, total int64) error {
	from, err := os.Open(path)
	if err != nil {
		return t.fail(remote.StepCopy, err.Error(), "", err)
	}
	defer from.Close()
	buffer := make([]byte, chunk)
	for left := size; left > 0; {
		n, err := from.Read(buffer[:min(left, chunk)])
		if n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return t.fail(remote.StepCopy, path+" was changed while it was being sent: "+err.Error(), "", err)
		}
		if _, err := t.process.Write(buffer[:n]); err != nil {
			return nil
		}
		left -= int64(n)
		t.sent += int64(n)
		t.report(remote.Progress{Step: remote.StepCopy, Sent: t.sent, Total: total})
	}
	return nil
}
