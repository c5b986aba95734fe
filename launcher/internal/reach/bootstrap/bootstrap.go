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
	"errors"
	"slices"
	"strings"

	"gorun/launcher/internal/reach/remote"
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
}

// Start runs the program on the host and returns its standard streams, from the
// first byte that the program itself writes. Ending ctx ends the start, and has no
// effect afterwards. Errors are *remote.Error.
func Start(ctx context.Context, host remote.Host, c Config) (*Stream, error) {
	s := &starting{talk: newTalk(ctx, host), config: c}
	line, err := s.line()
	if err != nil {
		return nil, s.fail(remote.StepConfig, err.Error(), "", nil)
	}
	if err := s.hold(ctx, line, s.answer); err != nil {
		return nil, err
	}
	s.report(remote.Progress{Step: remote.StepStart, Sent: s.sent, Total: s.sent, Running: true})
	return &Stream{Process: s.process, rest: s.answers.rest(), host: host.Name(), began: s.began}, nil
}

// starting is one call of Start.
type starting struct {
	*talk
	config  Config
	parcels []parcel
}

// answer is what follows from one answer of the host.
func (s *starting) answer(ctx context.Context, word, text string) (done bool, err error) {
	switch word {
	case "run":
		return true, nil
	case "need":
		return false, s.send(text)
	}
	return false, s.refused(word, text)
}

// line is the command line for the host; it sets the parcels.
func (s *starting) line() (string, error) {
	if err := s.checkTexts(); err != nil {
		return "", err
	}
	var w words
	args := w.list(s.config.Args)
	fill := []string{"@ARGS@", args}
	script := agentScript
	if s.config.Agent != "" {
		fill = append(fill, "@AGENT@", w.add(s.config.Agent))
	} else {
		script = startScript
		builds, err := s.builds(&w)
		if err != nil {
			return "", err
		}
		fill = append(fill, "@BUILDS@", builds, "@CHECK@", w.list(s.check()))
	}
	return s.fill(script, &w, fill...), nil
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

// send writes the files of a parcel.
func (s *starting) send(key string) error {
	i := slices.IndexFunc(s.parcels, func(p parcel) bool { return p.key == key })
	if i < 0 {
		return s.fail(remote.StepCopy, "it asks for "+key+", which nobody offered", "", nil)
	}
	total := s.parcels[i].size()
	s.report(remote.Progress{Step: remote.StepCopy, Total: total})
	for _, f := range s.parcels[i].files {
		if err := s.sendFile(f.Path, f.Size, total); err != nil {
			return err
		}
	}
	return nil
}
