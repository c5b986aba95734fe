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

// tellUnreadNames warns, in one line, of variables that ranks get and that NCCL was meant to read and does not. What
// takes time is done only where there is such a name.
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

// unreadNames says of names that nobody reads what was meant; "" where all are far from those that are known.
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

// usesNCCL reports whether what is known of the job says that its ranks use NCCL or RCCL: there are GPUs, or a program
// of this host links one of them or imports PyTorch.
func (s *session) usesNCCL() bool {
	for _, n := range s.nodes {
		if n.facts.NCCL.GPUs || len(n.facts.Machine.GPUs) > 0 {
			return true
		}
		if !n.host.Here || n.joined { // another host's word is no path to open here
			continue
		}
		for i := range n.facts.Programs {
			p := &n.facts.Programs[i]
			if program.UsesNCCL(s.rankPath(i, p.Path), s.rankArgv(i, p)) {
				return true
			}
		}
	}
	return false
}

// from is a path as the ranks of a program have it.
func (c *call) rankPath(app int, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.dirOf(&c.spec.Apps[app]), path)
}

// fromAll are the words of a program's command, and its script as its ranks have it.
func (c *call) rankArgv(app int, p *job.Program) []string {
	argv := slices.Clone(p.Argv)
	for i, word := range argv {
		if strings.HasSuffix(word, ".py") {
			argv[i] = c.rankPath(app, word)
		}
	}
	return argv
}

// varConfFile names NCCL's file of settings, which is read before there is a plan.
const varConfFile = "NCCL_CONF_FILE"

// exportedToNCCL is what the user gives ranks alone of the variables by which NCCL and its
// file of settings are found, NAME=VALUE; of several programs the first one's counts, as a
// host is asked once.
func (c *call) ncclExports() (environ []string) {
	if len(c.spec.Apps) == 0 {
		return c.ncclVariables(nil)
	}
	return c.ncclVariables(c.spec.Apps[0].Exports)
}

// unheardOfNCCL says which programs find another file of settings, or another library, than the
// first one, whose file and library a plan goes by.
func (c *call) ncclExportNotes() (remarks []string) {
	heard := c.ncclExports()
	for i, app := range c.spec.Apps {
		var other []string
		own := c.ncclVariables(app.Exports)
		for _, entry := range own {
			if !slices.Contains(heard, entry) {
				other = append(other, "-x "+printable.Text(entry))
			}
		}
		for _, entry := range heard {
			if name, _, _ := strings.Cut(entry, "="); !slices.ContainsFunc(own, func(o string) bool {
				return strings.HasPrefix(o, name+"=")
			}) {
				other = append(other, "no -x "+name)
			}
		}
		if other != nil {
			remarks = append(remarks, fmt.Sprintf("program %d has %s: NCCL's file of settings and its library are looked for "+
				"as program 1 finds them, so that this one's own are not shown", i+1, strings.Join(other, ", ")))
		}
	}
	return remarks
}

// findsNCCL are those variables for a program with exports of its own.
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
