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
			"program", "program",
			"whether each host has the program, its interpreter and the working directory",
			"Ranks on a host that lacks one end with 126 or 127.",
			programThere,
		},
		{
			"program-differs", "program",
			"whether the program is the same file on all hosts, by size and SHA-256",
			"Ranks of two versions hang, or fail far from the cause.",
			programDiffers,
		},
		{
			"architecture", "program",
			"whether the hosts are of one architecture, and the program is built for it",
			"A job's program runs on one kind of machine: elsewhere it is 'Exec format error'.",
			architecture,
		},
		{
			"room", "program",
			"free space for gorun's copy and in the temporary directory",
			"What ranks write there is cut off, and gorun cannot be copied to the host.",
			each(room),
		},
	}
}

func programThere(c *Cluster) []Finding {
	return each(func(h *Host) []Finding {
		switch p := h.Program; {
		case p == nil:
		case p.NoDir != "":
			text := p.NoDir
			if !strings.Contains(text, p.Dir) {
				text = "the working directory " + p.Dir + ": " + text
			}
			return failure(text, p.Dir,
				"gorun --chdir DIR ... # a directory that each host has")
		case p.Error != "":
			text, fix := p.wayOut(c.Program, h.Here)
			return failure(text, p.Hint, fix)
		}
		return nil
	})(c)
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
	large := each(func(h *Host) []Finding {
		if sum(h) == "" || h.Program.Size <= ProgramBytes {
			return nil
		}
		return note(fmt.Sprintf("of %s, which has %d MiB, the first %d were compared", path.Base(h.Program.Path),
			h.Program.Size>>20, ProgramBytes>>20), "", "sha256sum "+shellwords.Quote(h.Program.Path))
	})(c)
	return append(large, c.differing(sum, func(h *Host, own, most, others string) []Finding {
		return failure(h.Program.Path+" is another file than on "+others,
			fmt.Sprintf("SHA-256 %.*s..., there %.*s...", digits, own, digits, most),
			"gorun --copy "+shellwords.Quote(c.Program)+" ... # sends yours to each host")
	})...)
}

func architecture(c *Cluster) []Finding {
	all := c.differing(func(h *Host) string { return h.Architecture }, func(h *Host, own, most, others string) []Finding {
		return warning(fmt.Sprintf("it is %s, %s %s", own, others, most), "uname -m",
			"gorun --exclude "+shellwords.Quote(h.Name)+" ...")
	})
	return append(all, each(func(h *Host) []Finding {
		p := h.Program
		if p == nil || p.ELF == "" || h.Architecture == "" || p.ELF == h.Architecture || p.Error != "" {
			return nil
		}
		return failure(fmt.Sprintf("%s is built for %s, and it is %s", p.Path, p.ELF, h.Architecture),
			"the file's ELF header", "file "+shellwords.Quote(p.Path))
	})(c)...)
}

func room(h *Host) (all []Finding) {
	for _, r := range h.DiskSpace {
		where := fmt.Sprintf("%s (%s)", r.Path, r.Purpose)
		switch {
		case r.Error != "" && r.Purpose == "cache": // another place is taken then
			all = append(all, note(where+": "+r.Error, r.Path, "ls -ld "+shellwords.Quote(r.Path))...)
		case r.Error != "":
			all = append(all, warning(where+": "+r.Error, r.Path, "export TMPDIR=DIR # of a directory that can be written")...)
		case r.Free < enoughRoom:
			all = append(all, warning("almost no space is left in "+where, fmt.Sprintf("statfs: %s free", Size(r.Free)),
				"df -h "+shellwords.Quote(cmp.Or(r.Path, "/tmp")))...)
		}
	}
	return all
}
