// Package bootstrap starts gorun's agent on a host where nothing is installed: by
// one command line, in one round trip where a copy of this very program lies in the
// user's cache there, else after sending it.
//
// The line runs start.sh by /bin/sh, whatever the login shell is, and both ends
// talk like this over the command's standard streams:
//
//	head → host   the command line                 says which program is wanted, by its hash
//	head ← host   MARK run                         the agent's frames follow
//	          or  MARK need KEY                    the files of that key are awaited, one after the other
//	head → host   bytes, as many as the line said
//	head ← host   MARK run
//	          or  MARK place DIR: REASON, MARK broken REASON, MARK bad CODE TEXT, MARK arch NAME, MARK missing
//
// MARK is random, and what a chatty shell prints before it is passed over. It does
// not occur in the line itself, which a shell may echo.
package bootstrap

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/transport/remote"
)

// Config is what is started on a host.
type Config struct {
	// Program is copied where it is not yet; not used with Agent.
	Program Program
	// Extra are files that belong beside it.
	Extra []Extra
	// Agent is a gorun that is installed on the host: a path there, or a name in its
	// PATH; "" for a copy of Program.
	Agent string
	// Args are the arguments of the started program.
	Args []string
	// Check are the arguments with which a fresh copy is tried: it must end with exit
	// code 0 and without having done anything. None means --version.
	Check []string
	// Progress is called on the caller's goroutine when there is something new; nil
	// for nobody who looks.
	Progress func(State)
}

// State is how far a start is.
type State struct {
	// Step is remote.StepStart while the host is asked, and once the program runs;
	// remote.StepCopy while it is being sent.
	Step remote.Step
	// Sent and Total are bytes; both 0 where nothing has to be sent.
	Sent, Total int64
	// Running tells that the program has been started.
	Running bool
}

// Start runs the program on the host and returns its standard streams, from the
// first byte that the program itself writes. Ending ctx ends the start, and has no
// effect afterwards. Errors are *remote.Error.
func Start(ctx context.Context, host remote.Host, c Config) (*Stream, error) {
	s := &starting{host: host, config: c, began: time.Now()}
	line, err := s.line()
	if err != nil {
		return nil, s.fail(remote.StepConfig, err.Error(), "", nil)
	}
	s.report(State{Step: remote.StepStart})
	process, err := host.Start(ctx, line)
	if err != nil {
		return nil, s.unreached(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { process.Close() })
	s.process, s.answers = process, newAnswers(process, s.mark)
	failed := s.converse(ctx)
	if !stop() && failed == nil {
		failed = s.fail(s.step(), "it was not started in time", "", context.Cause(ctx))
	}
	if failed != nil {
		process.Close()
		return nil, failed
	}
	s.report(State{Step: remote.StepStart, Sent: s.sent, Total: s.sent, Running: true})
	return &Stream{Process: process, rest: s.answers.rest(), host: host.Name(), began: s.began}, nil
}

// starting is one call of Start.
type starting struct {
	host    remote.Host
	config  Config
	began   time.Time
	mark    string
	parcels []parcel
	process remote.Process
	answers *answers
	places  []string // the places where nothing could be put, each with its reason
	copying bool
	sent    int64
}

func (s *starting) report(now State) {
	if s.config.Progress != nil {
		s.config.Progress(now)
	}
}

// step is where the start stands.
func (s *starting) step() remote.Step {
	if s.copying {
		return remote.StepCopy
	}
	return remote.StepStart
}

// fail is an error of this start.
func (s *starting) fail(step remote.Step, text, hint string, cause error) *remote.Error {
	return &remote.Error{Host: s.host.Name(), Step: step, After: time.Since(s.began), Text: printable.Text(text), Hint: hint, Err: cause}
}

// unreached is the failure of the way to the host, which names its own step where it
// knows one.
func (s *starting) unreached(ctx context.Context, err error) error {
	var known *remote.Error
	if errors.As(err, &known) {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s.fail(remote.StepStart, err.Error(), "", err)
}

// line is the command line for the host; it sets the mark and the parcels.
func (s *starting) line() (string, error) {
	first, second := nonce(), nonce()
	s.mark = first + second
	if err := s.checkTexts(); err != nil {
		return "", err
	}
	var w words
	args := w.list(s.config.Args)
	fill := []string{"@MARK1@", first, "@MARK2@", second, "@ARGS@", args}
	script := agentScript
	if s.config.Agent != "" {
		fill = append(fill, "@AGENT@", w.add(s.config.Agent))
	} else {
		script = startScript
		builds, err := s.builds(&w)
		if err != nil {
			return "", err
		}
		fill = append(fill, "@BUILDS@", builds, "@CHECK@", w.list(s.check()), "@PLACES@", joined(placeScript))
	}
	fill = append(fill, "@WORDS@", w.lines())
	return commandLine(strings.NewReplacer(fill...).Replace(joined(script))), nil
}

func (s *starting) check() []string {
	if s.config.Check == nil {
		return []string{"--version"}
	}
	return s.config.Check
}

// checkTexts refuses what no command line can say.
func (s *starting) checkTexts() error {
	if strings.HasPrefix(s.config.Agent, "-") {
		return errors.New("the agent " + s.config.Agent + " would be taken for an option: say ./" + s.config.Agent)
	}
	for _, text := range slices.Concat(s.config.Args, s.config.Check, []string{s.config.Agent}) {
		if strings.ContainsRune(text, 0) {
			return errors.New("an argument has a zero byte")
		}
	}
	return nil
}

// builds are the arms of the script's choice by architecture.
func (s *starting) builds(w *words) (string, error) {
	if len(s.config.Program.Builds) == 0 {
		return "", errors.New("there is no program to copy: build gorun-linux-amd64 and gorun-linux-arm64 by make static")
	}
	var arms strings.Builder
	for _, build := range s.config.Program.Builds {
		arms.WriteString(kernelArch[build.Arch] + ") ")
		files := []file{{"gorun", build}}
		s.choose(&arms, build.Arch, files)
		for _, extra := range s.config.Extra {
			if extra.Arch != build.Arch {
				continue
			}
			files = slices.Insert(slices.Clone(files), 0, file{extra.Name, extra.Build})
			if extra.If == "" {
				s.choose(&arms, build.Arch, files)
				continue
			}
			arms.WriteString("if [ -e " + w.add(extra.If) + " ]; then ")
			s.choose(&arms, build.Arch, files)
			arms.WriteString("fi; ")
		}
		arms.WriteString(";; ")
	}
	return strings.ReplaceAll(arms.String(), "; ;;", ";;"), nil
}

// choose writes the assignments that make the host want these files.
func (s *starting) choose(arms *strings.Builder, arch string, files []file) {
	p := pack(s.config.Program.Version, arch, files)
	s.parcels = append(s.parcels, p)
	arms.WriteString(`gr_k=` + p.key + `; gr_f="` + p.list() + `"; `)
}

// converse hears the host's answers, and sends what it needs, until the program
// runs. It returns an *remote.Error, nil for none.
func (s *starting) converse(ctx context.Context) error {
	for {
		word, text, err := s.answers.next()
		if err != nil {
			return s.ended(ctx, err)
		}
		switch word {
		case "run":
			return nil
		case "place":
			s.copying = true
			s.places = append(s.places, text)
		case "need":
			if err := s.send(ctx, text); err != nil {
				return err
			}
		default:
			return s.refused(word, text)
		}
	}
}

// send writes the files of a parcel while the answer is awaited: a host that cannot
// take them says so before their end.
func (s *starting) send(ctx context.Context, key string) error {
	s.copying = true
	i := slices.IndexFunc(s.parcels, func(p parcel) bool { return p.key == key })
	if i < 0 {
		return s.fail(remote.StepCopy, "it asks for "+key+", which nobody offered", "", nil)
	}
	total := s.parcels[i].size()
	s.report(State{Step: remote.StepCopy, Total: total})
	for _, f := range s.parcels[i].files {
		if err := s.sendFile(f, total); err != nil {
			return err
		}
	}
	return nil
}

// chunk is how many bytes are sent at once, and what progress is told by.
const chunk = 256 << 10

// sendFile writes one file's bytes, exactly as many as were announced. A host that
// takes no more has said why, or says it when it is read next.
func (s *starting) sendFile(f file, total int64) error {
	from, err := os.Open(f.Path)
	if err != nil {
		return s.fail(remote.StepCopy, err.Error(), "", err)
	}
	defer from.Close()
	buffer := make([]byte, chunk)
	for left := f.Size; left > 0; {
		n, err := from.Read(buffer[:min(left, chunk)])
		if n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return s.fail(remote.StepCopy, f.Path+" was changed while it was being sent: "+err.Error(), "", err)
		}
		if _, err := s.process.Write(buffer[:n]); err != nil {
			return nil // converse reads the host's own words about it
		}
		left -= int64(n)
		s.sent += int64(n)
		s.report(State{Step: remote.StepCopy, Sent: s.sent, Total: total})
	}
	return nil
}

// nonce is half a mark: 64 random bits.
func nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return "m" + hex.EncodeToString(b[:])
}
