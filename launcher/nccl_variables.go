package launcher

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/program"
	"gorun/launcher/job"
)

// warnUnreadNames warns of exported variables that look like NCCL's and are not. It checks whether
// the job uses NCCL only if there is such a variable, since that takes time.
func (s *session) warnUnreadNames() {
	if s.spec.NoEnvCheck {
		return
	}
	var names []string
	exported := false
	look := func(list []plan.Variable) {
		for i := range list {
			v := &list[i]
			if v.Origin != plan.Gorun && nccl.IsUnread(v.Name) && !slices.Contains(names, v.Name) {
				names, exported = append(names, v.Name), exported || v.Origin == plan.Exported
			}
		}
	}
	look(s.plan.Common)
	for i := range s.plan.Nodes {
		look(s.plan.Nodes[i].Env)
	}
	for i := range s.plan.Ranks {
		look(s.plan.Ranks[i].Env)
	}
	if len(names) == 0 || !exported && !s.usesNCCL() {
		return
	}
	if text := unreadText(names); text != "" {
		s.settings.notify(text)
	}
}

// unreadText suggests known variables for unknown ones; "" if no name is close to a known one.
func unreadText(names []string) string {
	var wrong []string
	for _, name := range names {
		meant, is := nccl.Meant(name)
		switch {
		case !is:
		case meant == nil:
			wrong = append(wrong, name+" is not a variable of NCCL")
		default:
			wrong = append(wrong, name+" is not a variable of NCCL: did you mean "+strings.Join(meant, " or ")+"?")
		}
	}
	return strings.Join(wrong, " ")
}

// usesNCCL reports whether ranks probably use NCCL or RCCL: a node has GPUs, or a program on this
// host links one of them or imports PyTorch.
func (s *session) usesNCCL() bool {
	for _, n := range s.nodes {
		if n.facts.NCCL.GPUs || len(n.facts.Machine.GPUs) > 0 {
			return true
		}
	}
	return s.anyProgramHere(program.UsesNCCL)
}

// anyProgramHere reports whether a function is true for a program on this host. It opens no paths of other hosts here.
func (s *session) anyProgramHere(is func(path string, argv []string) bool) bool {
	for _, n := range s.nodes {
		if !n.host.Here || n.joined {
			continue
		}
		for i := range n.facts.Programs {
			p := &n.facts.Programs[i]
			if is(s.rankPath(i, p.Path), s.rankArgv(i, p)) {
				return true
			}
		}
	}
	return false
}

// rankPath returns a path as the ranks of a program resolve it.
func (c *call) rankPath(app int, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.dirOf(&c.spec.Apps[app]), path)
}

// rankArgv returns a program's command line with its script as the ranks resolve it.
func (c *call) rankArgv(app int, p *job.Program) []string {
	argv := slices.Clone(p.Argv)
	for i, word := range argv {
		if strings.HasSuffix(word, ".py") {
			argv[i] = c.rankPath(app, word)
		}
	}
	return argv
}

// varConfFile names NCCL's settings file, which is read before planning.
const varConfFile = "NCCL_CONF_FILE"

// ncclExports returns the variables that tell NCCL where its library and settings file are, as the
// user exports them to the first program: a host is queried once.
func (c *call) ncclExports() (environ []string) {
	if len(c.spec.Apps) == 0 {
		return c.ncclVariables(nil)
	}
	return c.ncclVariables(c.spec.Apps[0].Exports)
}

// ncclExportNotes notes programs whose exports lead to another settings file or library than the
// first program's, which the plan uses.
func (c *call) ncclExportNotes() (notes []string) {
	first := c.ncclExports()
	for i, app := range c.spec.Apps {
		var other []string
		own := c.ncclVariables(app.Exports)
		for _, entry := range own {
			if !slices.Contains(first, entry) {
				other = append(other, "-x "+printable.Text(entry))
			}
		}
		for _, entry := range first {
			if name, _, _ := strings.Cut(entry, "="); !slices.ContainsFunc(own, func(o string) bool {
				return strings.HasPrefix(o, name+"=")
			}) {
				other = append(other, "no -x "+name)
			}
		}
		if other != nil {
			notes = append(notes, fmt.Sprintf("program %d has %s: gorun looks for NCCL's settings and library "+
				"as program 1 finds them, so that this one's own are not shown", i+1, strings.Join(other, ", ")))
		}
	}
	return notes
}

// ncclVariables returns these variables for a program with exports of its own.
func (c *call) ncclVariables(own []job.Export) (environ []string) {
	exports := slices.Concat(c.spec.Exports, own)
	for _, name := range []string{varConfFile, "LD_LIBRARY_PATH", "LD_PRELOAD"} {
		for _, e := range slices.Backward(exports) {
			if e.Name != name {
				continue
			}
			switch {
			case e.Remove:
				environ = append(environ, name+"=")
			case e.HasValue:
				environ = append(environ, name+"="+e.Value)
			}
			break
		}
	}
	return environ
}
