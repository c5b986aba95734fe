package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorun/launcher/internal/reach/remote"
)

// refused is an answer that ends the start.
func (s *starting) refused(word, text string) error {
	switch word {
	case "missing":
		return s.fail(remote.StepStart, fmt.Sprintf("there is no program %q (--agent)", s.config.Agent), "", nil)
	case "broken":
		return s.fail(remote.StepCopy, "gorun could not be copied: "+text, "", nil)
	case "arch":
		return s.foreign(text)
	case "bad":
		return s.unfit(text)
	}
	return s.fail(remote.StepStart, fmt.Sprintf("it answered %q, which means nothing", word), "", nil)
}

// foreign is a host for which there is no build. Its kernel's name stands in front
// where it may be another one than Linux.
func (s *starting) foreign(name string) error {
	system, machine, both := strings.Cut(strings.TrimSpace(name), " ")
	if !both {
		system, machine = "Linux", system
	}
	if system != "Linux" {
		return s.fail(remote.StepStart, "it runs "+system+"; gorun runs on Linux", "", nil)
	}
	for arch, kernel := range kernelArch {
		if kernel == machine {
			return s.fail(remote.StepCopy,
				fmt.Sprintf("its processors are %s (%s), and there is no gorun-linux-%s beside gorun", arch, machine, arch),
				"make static, and copy build/gorun-linux-"+arch+" beside gorun", nil)
		}
	}
	return s.fail(remote.StepStart, fmt.Sprintf("its processors are %q; gorun is made for amd64 and arm64", machine),
		"", nil)
}

// unfit is a copy that arrived whole and does not run there: the exit code and the
// words of the trial.
func (s *starting) unfit(text string) error {
	code, words, _ := strings.Cut(text, " ")
	why := "the copy of gorun does not run there: exit code " + code
	if words != "" {
		why += ": " + words
	}
	for _, b := range s.config.Program.Builds {
		if b.Loader != "" {
			return s.fail(remote.StepStart,
				fmt.Sprintf("%s (%s is not static: it needs %s and the C library it was built with)", why, b.Path, b.Loader),
				"make static, and copy build/gorun-linux-"+b.Arch+" beside gorun", nil)
		}
	}
	return s.fail(remote.StepStart, why, "", nil)
}

// ended is a command whose output ended, or became senseless, before the program ran.
func (t *talk) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return t.late(ctx)
	}
	if !errors.Is(err, io.EOF) {
		return t.fail(t.step(), err.Error()+t.lastWords(": "), "", err)
	}
	end := t.process.Wait()
	if len(t.places) > 0 && end == nil {
		slices.Sort(t.places)
		return t.fail(remote.StepCopy, "there is no place for a copy: "+strings.Join(slices.Compact(t.places), "; "),
			"make room in one of these places", nil)
	}
	how := "without a word"
	if end != nil {
		how = "with " + end.Error()
	}
	return t.fail(t.step(), "the shell there ended "+how+" before gorun ran"+t.lastWords(": "), "", end)
}

// lastWords is what the command wrote last, on standard error or else before the
// mark, behind prefix; "" for nothing.
func (t *talk) lastWords(prefix string) string {
	words := remote.LastLines(t.process.Stderr())
	if words == "" {
		words = remote.LastLines(string(t.answers.said))
	}
	if words == "" {
		return ""
	}
	return prefix + words
}
