package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	helpWidth  = 80 // columns of the help
	helpColumn = 26 // where the texts begin
)

// exitCodes are the last thing in the help, as scripts look for them there.
var exitCodes = []example{
	{"0", "every rank ended with 0"},
	{"1-255", "the first failing rank's own exit code"},
	{"128+n", "it was killed by signal n"},
	{"2", "a mistake on the command line"},
	{"124", "--timeout or --hang-timeout ran out"},
	{"125", "gorun's own error"},
	{"126, 127", "the program cannot be executed, or was not found"},
	{"129, 130, 143", "SIGHUP, SIGINT, SIGTERM ended gorun"},
	{"141", "the reader of standard output went away"},
}

// Help returns the text of --help: examples first, options by what people look
// for, each in one spelling, exit codes last. No line is longer than 80 columns.
func (d *Dialect) Help() string {
	var b helpBuilder
	b.paragraph("", d.About)
	fmt.Fprintf(&b, "\nUsage: %s\n", d.synopsis())
	b.heading("Examples")
	for _, e := range d.examples {
		b.example(e)
	}
	b.mostUsed(d)
	if d.slots != slotsOfGorun { // what users of that name look for comes before what is gorun's own
		b.group(d, GroupMPI)
	}
	for g := range groups {
		b.group(d, g)
	}
	if d.subcommands {
		b.heading("Commands (as the first word)")
		for _, name := range commandNames {
			b.row(name, subcommand(name).does)
		}
	}
	b.heading("Exit codes")
	codes, last := d.exitCodes(), "Options end at the program. Every option has a variable: GORUN_LOG_DIR gives the "+
		"default of --log-dir; PET_LOG_DIR, "+
		"torchrun's, is weaker. GORUN_PYTHON names the Python interpreter. Other spellings, and what is refused: "+
		"docs/options.md."
	if d.codes != nil {
		codes, last = d.codes, d.last
	}
	for _, e := range codes {
		b.row(e.line, e.what)
	}
	b.WriteByte('\n')
	b.paragraph("", last)
	return b.String()
}

// exitCodes are those of a job: at the deadline other launchers have codes of their own.
func (d *Dialect) exitCodes() []example {
	if d.timeoutCode == 0 {
		return exitCodes
	}
	codes := []example{{strconv.Itoa(d.timeoutCode), "--timeout ran out, as with " + d.like}}
	for _, e := range exitCodes {
		if e.line == "124" {
			e.what = "--hang-timeout ran out"
		}
		codes = append(codes, e)
	}
	return slices.Concat(codes[1:5], codes[:1], codes[5:])
}

// synopsis is the shape of a command line.
func (d *Dialect) synopsis() string {
	if d.explains {
		return d.Name + " [options] TEXT|FILE|ID|-"
	}
	if d.operands != "" {
		return d.Name + " [options] " + d.operands
	}
	if d.serves || d.shows {
		return d.Name + " [options]"
	}
	if d.benches {
		return d.Name + " OPERATION [options]"
	}
	if d.examines {
		return d.Name + " [options] [PROGRAM]"
	}
	if d.checks {
		return d.Name + " check [options] [PROGRAM]"
	}
	if d.environs {
		return d.Name + " [options] [PROGRAM [ARGS...]]\n       " + d.Name + " --explain NAME...\n       " + d.Name +
			" --lint [FILE...]"
	}
	return d.Name + " [options] PROGRAM [ARGS...]"
}

// helpBuilder collects the lines of a help text.
type helpBuilder struct{ strings.Builder }

func (b *helpBuilder) heading(text string) { fmt.Fprintf(b, "\n%s:\n", text) }

// mostUsed writes the options that are looked for most, which are in no other group.
func (b *helpBuilder) mostUsed(d *Dialect) {
	if d.often == nil {
		return
	}
	b.heading("Most used")
	for _, name := range d.often {
		o := d.exact(Spelling(name))
		b.row(o.Usage(), o.Help)
	}
	b.paragraph("  ", d.countDefault())
}

// group writes the options of one heading.
func (b *helpBuilder) group(d *Dialect, g Group) {
	begun := false
	for o := range d.shown {
		if o.Group != g || slices.Contains(d.often, o.Names[0]) {
			continue
		}
		if !begun {
			b.heading(g.String())
			begun = true
		}
		b.row(o.Usage(), o.Help)
	}
	if g == GroupRanks && !d.serves && !d.checks && d.jobs == "" && d.often == nil {
		b.paragraph("  ", d.countDefault())
	}
}

// countDefault says how many ranks there are where nothing says it.
func (d *Dialect) countDefault() string {
	if d.benches {
		return "Without either, nor gorun's --nproc-per-node: one rank per GPU, else one per CPU."
	}
	if d.batches {
		return "Without -n and --nproc-per-node: on each node one rank per GPU, else one."
	}
	if d.shows {
		return "Without any of these two, nor a wish for who sits where: nobody is seated."
	}
	switch d.slots {
	case slotsOfOpenMPI:
		return "Without a number of ranks: one per core of this host, or the slots of -H or --hostfile."
	case slotsOfHydra:
		return "Without a number of ranks: one, or the slots of -H or --hostfile."
	}
	if d.count > 0 {
		return fmt.Sprintf("Without it: %d.", d.count)
	}
	return "With neither: the slots of -H or --hostfile, else one rank per GPU, else one."
}

// Usage is the option as help shows it: the short name and the first long one,
// with the value.
func (o *Option) Usage() string {
	names := Spelling(o.Names[0])
	if short := o.short(); short != "" && short != o.Names[0] {
		names = Spelling(short) + ", " + names
	}
	if o.TakesValue() {
		names += " " + o.Value
	}
	return names
}

// example writes a command line and what it does, below each other where both do
// not fit beside each other.
func (b *helpBuilder) example(e example) {
	if len(e.line) <= 38 && len(e.what) <= helpWidth-42 {
		fmt.Fprintf(b, "  %-38s  %s\n", e.line, e.what)
		return
	}
	fmt.Fprintf(b, "  %s\n      %s\n", e.line, e.what)
}

// row writes two columns; a long left one has its line for itself.
func (b *helpBuilder) row(left, right string) {
	left = "  " + left
	for _, line := range wrap(right, helpWidth-helpColumn) {
		if len(left) > helpColumn-2 {
			fmt.Fprintln(b, left)
			left = ""
		}
		fmt.Fprintf(b, "%-*s%s\n", helpColumn, left, line)
		left = ""
	}
}

// paragraph writes wrapped text behind an indent.
func (b *helpBuilder) paragraph(indent, text string) {
	for _, line := range wrap(text, helpWidth-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}

// wrap breaks text at spaces into lines of at most width bytes; a longer word
// has a line for itself.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
