package dialect

import (
	"errors"
	"slices"
	"strings"
)

// reachState holds options on how to reach other hosts that exclude each other.
type reachState struct {
	commandFrom, configFrom, acceptNewFrom string
	args                                   optionValue[[]string] // of the command
	rsh                                    Arg                   // a launcher that is rsh
}

// setAgent sets a path on another host. It becomes part of a command there.
func (p *Line) setAgent(a Arg) error {
	if strings.HasPrefix(a.Value, "-") {
		return errors.New("a path that begins with a dash would be taken for an option there: write ./ before it")
	}
	return Text(&p.Spec.Reach.Agent)(a)
}

func (p *Line) setCopy(a Arg) error {
	p.Spec.Reach.Copy = append(p.Spec.Reach.Copy, a.Value)
	return notEmpty(a)
}

func (p *Line) setAcceptNew(a Arg) error {
	p.Spec.Reach.AcceptNew = a.On
	return switchFrom(&p.reach.acceptNewFrom)(a)
}

// setSSH splits the command as a shell would.
func (p *Line) setSSH(a Arg) (err error) {
	p.reach.commandFrom = a.From
	p.Spec.Reach.Command, err = splitCommand(a.Value)
	return err
}

// setSSHArgs sets arguments of the program that reaches other hosts.
func (p *Line) setSSHArgs(a Arg) error {
	if strings.TrimSpace(a.Value) == "" {
		return nil
	}
	return p.reach.args.parsed(splitCommand)(a)
}

// setRSHAgent takes Open MPI's list of programs, of which the first one that exists counts. ssh alone is the default.
func (p *Line) setRSHAgent(a Arg) error {
	for _, command := range strings.Split(a.Value, ":") {
		words, err := splitCommand(command)
		if err != nil {
			return err
		}
		if words[0] == "ssh" && len(words) == 1 {
			return nil
		}
		if _, err := p.around.LookPath(words[0]); err == nil || !strings.Contains(a.Value, ":") {
			return p.setSSH(Arg{Value: command, From: a.From})
		}
	}
	return errors.New("none of these programs is here")
}

// resolveReach decides between gorun's own SSH and a program that replaces it: the command line overrides
// variables.
func (p *Line) resolveReach() {
	s, reach := &p.reach, &p.Spec.Reach
	weakCommand := s.commandFrom == "" || strings.HasPrefix(s.commandFrom, "GORUN_") && !isVariable(s.rsh.From)
	if s.rsh.From != "" && weakCommand {
		s.commandFrom, reach.Command = s.rsh.From, []string{s.rsh.Value}
	}
	typed := func(from string) bool { return from != "" && !isVariable(from) }
	own, program := joinWords(s.configFrom, s.acceptNewFrom), joinWords(s.commandFrom, s.args.from)
	ownTyped := typed(s.configFrom) || typed(s.acceptNewFrom)
	programTyped := typed(s.commandFrom) || typed(s.args.from)
	switch {
	case own == "" || program == "" || ownTyped == programTyped:
	case programTyped:
		p.verbose("%s is ignored beside %s", own, program)
		s.configFrom, s.acceptNewFrom, reach.SSHConfig, reach.AcceptNew = "", "", "", false
	default:
		p.verbose("%s is ignored beside %s", program, own)
		s.commandFrom, reach.Command, s.args.from = "", nil, ""
	}
}

// checkReach adds the arguments to the command that reaches other hosts, and refuses options of gorun's own SSH
// beside it.
func (p *Line) checkReach() {
	s, reach := &p.reach, &p.Spec.Reach
	byEngine := s.commandFrom == "" && reach.Engine != nil && (reach.Engine.Once != nil || reach.Command != nil)
	switch {
	case s.args.from == "":
	case byEngine:
		p.verbose("%s has no effect: %s starts the agents", s.args.from, reach.Engine.Job)
	case slices.ContainsFunc(reach.Command, func(word string) bool { return strings.Contains(word, "{host}") }):
		p.problem("%s: %s places the host itself: write the arguments into it", s.args.from, s.commandFrom)
	case s.commandFrom != "":
		reach.Command = slices.Concat(reach.Command, s.args.value)
	default:
		s.commandFrom, reach.Command = s.args.from, append([]string{"ssh"}, s.args.value...)
	}
	for _, o := range []struct{ from, instead string }{
		{s.configFrom, "--ssh 'ssh -F FILE'"}, {s.acceptNewFrom, "--ssh 'ssh -o StrictHostKeyChecking=accept-new'"},
	} {
		if o.from != "" && s.commandFrom != "" {
			p.problem("%s is for gorun's own SSH, and %s takes another program's: write it into the command, such "+
				"as %s", o.from, s.commandFrom, o.instead)
		}
	}
}
