// Package bootstrap starts gorun's agent on a host without an installation, by one command line: in one round trip if
// the user's cache there has a copy of this very program, else after sending it.
//
// The line runs start.sh by /bin/sh, whatever the login shell is. Both ends talk over the command's standard streams:
//
//	head → host   the command line                 names the wanted program by its hash
//	head ← host   MARK run                         the agent's frames follow
//	          or  MARK need FILE                   waits for this file, with its size and hash; then for the next one
//	          or  MARK need FILE UNPACKER          may get it compressed for zstd or gzip
//	head → host   a line, SIZE [UNPACKER], and then as many bytes as that says
//	head ← host   MARK run
//	          or  MARK place DIR: REASON, MARK broken REASON, MARK bad CODE TEXT, MARK arch NAME, MARK missing
//
// MARK is random: the output of a chatty shell before it is skipped. It does not occur in the line itself, which a
// shell
// may echo.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/reach/remote"
)

// Config describes the program to start.
type Config struct {
	// Program is copied if the host does not have it; unused with Agent. A fresh copy is run with --version and the
	// SHA-256 that it should have, and must exit with 0.
	Program Program
	// Extra are files that are copied beside it.
	Extra []Extra
	// Agent is a gorun that is installed on the host: a path, or a name in its PATH; "" for a copy of Program.
	Agent string
	// Args are the arguments of the program.
	Args []string
	// Limit is for how long the host waits for each file, rounded down to seconds.
	Limit time.Duration
}

// Start runs the program on the host and returns its standard streams, from the first byte that the program itself
// writes. ctx limits the start only. Errors are *remote.Error.
func Start(ctx context.Context, host remote.Host, c Config) (*Stream, error) {
	s := &start{session: newSession(ctx, host, c.Limit), config: c}
	line, err := s.line()
	if err != nil {
		return nil, s.fail(remote.StepConfig, err.Error(), nil)
	}
	if err := s.run(ctx, line, s.handle); err != nil {
		return nil, err
	}
	s.report(remote.Progress{Step: remote.StepStart, Sent: s.sent, Total: s.sent, Running: true})
	return s.stream(), nil
}

// start is one call of Start.
type start struct {
	*session
	config Config
	files  []file // that it may ask for
	total  int64  // bytes of those that it asked for
}

func (s *start) handle(word, text string) (done bool, err error) {
	switch word {
	case "run":
		return true, nil
	case "need":
		return false, s.sendFile(text)
	}
	return false, s.refused(word, text)
}

// line returns the command line for the host, and collects the files that it may ask for.
func (s *start) line() (string, error) {
	if err := s.checkTexts(); err != nil {
		return "", err
	}
	var v variables
	args := v.refs(s.config.Args)
	pairs := []string{"@ARGS@", args}
	script := agentScript
	if s.config.Agent != "" {
		pairs = append(pairs, "@AGENT@", v.ref(s.config.Agent))
	} else {
		script = startScript
		builds, err := s.builds(&v)
		if err != nil {
			return "", err
		}
		pairs = append(pairs, "@BUILDS@", builds)
	}
	return s.fill(script, &v, pairs...), nil
}

// checkTexts refuses what no command line can express.
func (s *start) checkTexts() error {
	if strings.HasPrefix(s.config.Agent, "-") {
		return errors.New("--agent " + s.config.Agent + " looks like an option: write ./" + s.config.Agent)
	}
	for _, text := range append(slices.Clone(s.config.Args), s.config.Agent) {
		if strings.ContainsRune(text, 0) {
			return errors.New("an argument has a zero byte")
		}
	}
	return nil
}

// builds returns the cases of the script's choice by architecture.
func (s *start) builds(v *variables) (string, error) {
	if len(s.config.Program.Builds) == 0 {
		return "", errors.New("no program to copy")
	}
	var cases strings.Builder
	for _, build := range s.config.Program.Builds {
		cases.WriteString(kernelArch[build.Arch] + ") ")
		files := []file{{"gorun", build}}
		s.choose(&cases, files)
		for _, extra := range s.config.Extra {
			if extra.Arch != build.Arch {
				continue
			}
			files = slices.Insert(slices.Clone(files), 0, file{extra.Name, extra.Build})
			if extra.If == "" {
				s.choose(&cases, files)
				continue
			}
			cases.WriteString("if [ -e " + v.ref(extra.If) + " ]; then ")
			s.choose(&cases, files)
			cases.WriteString("fi; ")
		}
		cases.WriteString(";; ")
	}
	return strings.ReplaceAll(cases.String(), "; ;;", ";;"), nil
}

// choose writes the assignments that select files, the program itself last.
func (s *start) choose(cases *strings.Builder, files []file) {
	s.files = append(s.files, files...)
	list := strings.Trim(fmt.Sprint(files), "[]")
	fmt.Fprintf(cases, `gr_k=%s; gr_f="%s"; `, dirOf(s.config.Program.Version, files), list)
}

// sendFile sends a file after a line about it. The request is the file, and the host's unpacker if it has one.
func (s *start) sendFile(request string) error {
	name, unpacker, _ := strings.Cut(request, " ")
	i := slices.IndexFunc(s.files, func(f file) bool { return f.String() == name })
	if i < 0 {
		return s.fail(remote.StepCopy, "unexpected request for "+name, nil)
	}
	p, err := s.files[i].parcel(unpacker)
	if err != nil {
		return s.fail(remote.StepCopy, err.Error(), err)
	}
	s.total += p.size
	s.report(remote.Progress{Step: remote.StepCopy, Sent: s.sent, Total: s.total})
	// if the host does not take it, its next answer says why
	_, _ = fmt.Fprintf(s.process, "%d %s\n", p.size, p.unpacker)
	return s.sendParcel(p, s.total)
}
