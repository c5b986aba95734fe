package doctor

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"gorun/internal/shellwords"
)

// enoughSpace is for gorun's own copy and what ranks write, in bytes.
const enoughSpace = 128 << 20

func programChecks() []Check {
	return []Check{
		{
			"program", "program",
			"whether each host has the program, its interpreter and the working directory",
			"Ranks on a host that lacks one exit with 126 or 127.",
			programExists,
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
			"A program runs on one kind of machine: elsewhere it is emulated, or fails with 'Exec format error'.",
			architecture,
		},
		{
			"room", "program",
			"free space for gorun's copy and in the temporary directory",
			"Without it ranks' files are cut off, and gorun cannot copy itself to the host.",
			each(diskSpace),
		},
	}
}

func programExists(c *Cluster, r report) {
	each(func(h *Host, r report) {
		switch p := h.Program; {
		case p == nil:
		case p.NoDir != "":
			text := p.NoDir
			if !strings.Contains(text, p.Dir) {
				text = "the working directory " + p.Dir + ": " + text
			}
			r.fail(text, p.Dir, "gorun --chdir DIR ... # a directory that each host has")
		case p.Error != "":
			text, fix := p.failure(c.Program, h.Here)
			r.fail(text, p.Hint, fix)
		}
	})(c, r)
}

// failure says why a program cannot be started, and returns a command that helps. Its own hint is the one for a job.
func (p *Program) failure(name string, here bool) (text, fix string) {
	if command, ok := strings.CutPrefix(p.Hint, "run `"); ok {
		command, _, _ = strings.Cut(command, "`")
		return p.Error, command
	}
	if !here {
		return p.Error, "gorun --copy " + shellwords.Quote(name) + " ... # sends it to each host"
	}
	text = p.Error
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	suggestion, ok := strings.CutPrefix(p.Hint, "did you mean ")
	suggestion, whole := strings.CutSuffix(suggestion, "?")
	switch {
	case ok && whole:
		return text, "gorun doctor " + suggestion
	case strings.HasSuffix(p.Error, noSuchFile):
		return text, "ls -l " + shellwords.Quote(path.Dir(name)) + " # where it is looked for"
	case strings.HasSuffix(p.Error, notInPATH):
		return text, `echo "$PATH" # where a name without a / is looked for; ./NAME is in the working directory`
	}
	return text, "ls -l " + shellwords.Quote(name)
}

// Ends of the errors of missing programs.
const (
	noSuchFile = ": no such file"
	notInPATH  = ": not found in PATH or the working directory"
)

func programDiffers(c *Cluster, r report) {
	const digits = 12
	sum := func(h *Host) string {
		if h.Program == nil || h.Program.SHA256 == "" {
			return ""
		}
		return fmt.Sprint(h.Program.SHA256, " ", h.Program.Size)
	}
	each(func(h *Host, r report) {
		if sum(h) != "" && h.Program.Size > ProgramBytes {
			r.note(fmt.Sprintf("of %s, which has %d MiB, the first %d were compared", path.Base(h.Program.Path),
				h.Program.Size>>20, ProgramBytes>>20), "", "sha256sum "+shellwords.Quote(h.Program.Path))
		}
	})(c, r)
	differing(c, r, sum, func(h *Host, r report, own, most, others string) {
		r.fail(h.Program.Path+" is another file than on "+others,
			fmt.Sprintf("SHA-256 %.*s..., there %.*s...", digits, own, digits, most),
			"gorun --copy "+shellwords.Quote(c.Program)+" ... # sends yours to each host")
	})
}

func architecture(c *Cluster, r report) {
	of := func(h *Host) string { return h.Architecture }
	differing(c, r, of, func(h *Host, r report, own, most, others string) {
		r.warn(fmt.Sprintf("it is %s, %s %s", own, others, most), "uname -m",
			"gorun --exclude "+shellwords.Quote(h.Name)+" ...")
	})
	each(func(h *Host, r report) {
		p := h.Program
		if p != nil && p.ELF != "" && h.Architecture != "" && p.ELF != h.Architecture && p.Error == "" {
			r.warn(fmt.Sprintf("%s is built for %s and runs slowly: the kernel emulates that on %s", p.Path, p.ELF,
				h.Architecture),
				"the file's ELF header", "file "+shellwords.Quote(p.Path))
		}
	})(c, r)
}

func diskSpace(h *Host, r report) {
	for _, d := range h.DiskSpace {
		where := fmt.Sprintf("%s (%s)", d.Path, d.Purpose)
		switch {
		case d.Error != "" && d.Purpose == "cache": // gorun falls back to another directory
			r.note(where+": "+d.Error, d.Path, "ls -ld "+shellwords.Quote(d.Path))
		case d.Error != "":
			r.warn(where+": "+d.Error, d.Path, "export TMPDIR=DIR # of a directory that can be written")
		case d.Free < enoughSpace:
			r.warn("almost no space is left in "+where, fmt.Sprintf("statfs: %s free", Size(d.Free)),
				"df -h "+shellwords.Quote(cmp.Or(d.Path, "/tmp")))
		}
	}
}
