package doctor

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"gorun/internal/shellwords"
)

// enoughRoom is for gorun's own copy and what ranks write, in bytes.
const enoughRoom = 128 << 20

func programChecks() []Check {
	return []Check{
		{
			ID: "program", Group: "program",
			What: "whether each host has the program, its interpreter and the working directory",
			Why:  "Ranks on a host that lacks one end with 126 or 127.",
			Run:  programThere,
		},
		{
			ID: "program-differs", Group: "program",
			What: "whether the program is the same file on all hosts, by size and SHA-256",
			Why:  "Ranks of two versions hang, or fail far from the cause.",
			Run:  programDiffers,
		},
		{
			ID: "architecture", Group: "program",
			What: "whether the hosts are of one architecture, and the program is built for it",
			Why:  "A job's program runs on one kind of machine: elsewhere it is 'Exec format error'.",
			Run:  architecture,
		},
		{
			ID: "room", Group: "program",
			What: "free space for gorun's copy and in the temporary directory",
			Why:  "What ranks write there is cut off, and gorun cannot be copied to the host.",
			Run:  each(room),
		},
	}
}

func programThere(c *Cluster) (all []Finding) {
	for _, h := range c.Hosts {
		p := h.Program
		if p == nil {
			continue
		}
		if p.NoDir != "" {
			all = append(all, Finding{
				Severity: Error, Hosts: []string{h.Name}, Text: "the working directory " + p.Dir + ": " + p.NoDir, Evidence: p.Dir,
				Fix: "gorun --chdir DIR ... # a directory that each host has",
			})
		}
		if p.Error != "" && p.NoDir == "" {
			text, fix := p.wayOut(c.Wished, h.Here)
			all = append(all, Finding{Severity: Error, Hosts: []string{h.Name}, Text: text, Evidence: p.Hint, Fix: fix})
		}
	}
	return all
}

// wayOut is what is wrong with a program, and a command that helps. The hint is that of a launch.
func (p *Program) wayOut(wished string, here bool) (text, fix string) {
	if strings.HasPrefix(p.Hint, "chmod +x ") {
		return p.Error, p.Hint
	}
	if command, ok := strings.CutPrefix(p.Hint, "name what runs it: "); ok {
		return p.Error, "gorun " + command
	}
	if !here {
		return p.Error, "gorun --copy " + shellwords.Quote(wished) + " ... # sends it to each host"
	}
	text = p.Error
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	meant, ok := strings.CutPrefix(p.Hint, "did you mean ")
	meant, whole := strings.CutSuffix(meant, "?")
	switch {
	case ok && whole:
		return text, "gorun doctor " + meant
	case strings.HasSuffix(p.Error, noSuchFile):
		return text, "ls -l " + shellwords.Quote(path.Dir(wished)) + " # where it is looked for"
	case strings.HasSuffix(p.Error, notInPATH):
		return text, `echo "$PATH" # where a name without a / is looked for; ./NAME is in the working directory`
	}
	return text, "ls -l " + shellwords.Quote(wished)
}

// How the error of a program ends that is not there.
const (
	noSuchFile = ": no such file"
	notInPATH  = ": not found in PATH or the working directory"
)

func programDiffers(c *Cluster) []Finding {
	const digits = 12
	sum := func(h *Host) string {
		if h.Program == nil || h.Program.SHA256 == "" {
			return ""
		}
		return fmt.Sprint(h.Program.SHA256, " ", h.Program.Size)
	}
	return c.differing(sum, func(h *Host, own, most string, others int) Finding {
		return Finding{
			Severity: Error, Text: fmt.Sprintf("%s is another file than on %s", h.Program.Path, theOthers(others)),
			Evidence: fmt.Sprintf("SHA-256 %s..., there %s...", own[:min(digits, len(own))], most[:min(digits, len(most))]),
			Fix:      "gorun --copy " + shellwords.Quote(c.Wished) + " ... # sends yours to each host",
		}
	})
}

func architecture(c *Cluster) []Finding {
	all := c.differing(func(h *Host) string {
		return h.Architecture
	}, func(h *Host, own, most string, others int) Finding {
		return Finding{
			Severity: Warning, Text: fmt.Sprintf("it is %s, %s %s", own, theOthers(others), most), Evidence: "uname -m",
			Fix: "gorun --exclude " + shellwords.Quote(h.Name) + " ...",
		}
	})
	for _, h := range c.Hosts {
		if p := h.Program; p != nil && p.ELF != "" && h.Architecture != "" && p.ELF != h.Architecture && p.Error == "" {
			all = append(all, Finding{
				Severity: Error, Hosts: []string{h.Name}, Text: fmt.Sprintf("%s is built for %s, and it is %s", p.Path, p.ELF,
					h.Architecture),
				Evidence: "the file's ELF header", Fix: "file " + shellwords.Quote(p.Path),
			})
		}
	}
	return all
}

func room(h *Host) (all []Finding) {
	for _, r := range h.Rooms {
		where := fmt.Sprintf("%s (%s)", r.Path, r.Purpose)
		switch {
		case r.Error != "" && r.Purpose == "cache": // another place is taken then
			all = append(all, Finding{
				Severity: Note, Text: where + ": " + r.Error, Evidence: r.Path,
				Fix: "ls -ld " + shellwords.Quote(r.Path),
			})
		case r.Error != "":
			all = append(all, Finding{
				Severity: Warning, Text: where + ": " + r.Error, Evidence: r.Path,
				Fix: "export TMPDIR=DIR # of a directory that can be written",
			})
		case r.Free < enoughRoom:
			all = append(all, Finding{
				Severity: Warning, Text: "almost no space is left in " + where,
				Evidence: fmt.Sprintf("statfs: %s free", bytes(r.Free)),
				Fix:      "df -h " + shellwords.Quote(cmp.Or(r.Path, "/tmp")),
			})
		}
	}
	return all
}
