package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/internal/printable"
)

const (
	helpWidth  = 80 // columns of the help
	helpColumn = 26 // where the texts begin
)

// Example is a line of the help: a command line or an exit code, and its meaning.
type Example [2]string

// Page holds the parts of a help text that a cli.Command lacks.
type Page struct {
	Examples []Example
	First    []Group   // headings before all others
	Often    []string  // first names of options that a long help lists first
	Heading  string    // of these; "": Most used
	Ranks    string    // default number of ranks
	Codes    []Example // exit codes
	Last     string    // last paragraphs, with an empty line between them
}

var exitCodes = []Example{
	{"0", "every rank ended with 0"},
	{"1-255", "the first failing rank's own exit code"},
	{"128+n", "it was killed by signal n"},
	{"2", "a mistake on the command line"},
	{"124", "--timeout or --hang-timeout ran out"},
	{"125", "gorun's own error"},
	{"126, 127", "the program cannot be executed, or was not found"},
	{"129, 130, 143", "SIGHUP, SIGINT, SIGTERM ended gorun"},
	{"141", "the reader of standard output closed it"},
}

// Help returns the text of --help: examples first, then options by group, each in one spelling, and exit codes last. No
// line is longer than 80 columns. urfave/cli's own template does not wrap, sorts headings by name, and has neither
// examples nor exit codes.
func Help(c *cli.Command, page Page, commands []*cli.Command) string {
	var b helpBuilder
	b.paragraph("", c.Description)
	fmt.Fprintf(&b, "\nUsage: %s\n", c.UsageText)
	b.body(c, page, commands)
	return b.String()
}

// body writes what follows the usage.
func (b *helpBuilder) body(c *cli.Command, page Page, commands []*cli.Command) {
	b.heading("Examples")
	for _, e := range page.Examples {
		b.example(e)
	}
	if page.Often != nil {
		b.heading(cmp.Or(page.Heading, "Most used"))
		b.options(c, func(f *Flag) int { return slices.Index(page.Often, f.Name()) })
		b.paragraph("  ", page.Ranks)
	}
	b.groups(c, page)
	if commands != nil {
		b.heading("Commands (as the first word)")
		for _, command := range commands {
			b.row(command.Name, command.Usage)
		}
	}
	b.exitCodes(page.Codes)
	b.last(page.Last)
}

const lastOfJobs = "Options end at the program. Every option has a variable: GORUN_LOG_DIR sets the " +
	"default of --log-dir; torchrun's PET_LOG_DIR is weaker. GORUN_PYTHON names the Python interpreter. " +
	"For all spellings and refused options see docs/reference/options.md."

// Help returns the dialect's help; commands are listed in gorun's own.
func (d *Dialect) Help(commands []*cli.Command) string {
	if d != Gorun {
		commands = nil
	}
	c, page := d.Manual()
	return Help(&c, page, commands)
}

// Manual returns the dialect as a command, with the rest of its help.
func (d *Dialect) Manual() (cli.Command, Page) {
	c := cli.Command{
		Name: d.Name, HelpName: d.Name, Description: d.About, UsageText: d.Name + " [options] PROGRAM [ARGS...]",
		Flags: new(Line).Flags(slices.Collect(d.Options)...),
	}
	for _, f := range c.Flags {
		f := f.(*Flag)
		f.Hidden = !d.python && f.Name() == "print-completion" // gorun completion replaces it
		f.oneDash = d.slots == slotsOfHydra
	}
	page := Page{
		Examples: d.examples, Often: d.often, Ranks: d.countDefault(), Codes: d.exitCodes(),
		Last: lastOfJobs,
	}
	switch {
	case d.python:
		page.Heading = "Options of torchrun"
	case d.slots != slotsOfGorun: // users of mpirun look for mpirun's options
		page.First = []Group{GroupMPI}
	default:
		return c, page
	}
	page.Last = d.unlisted(c.Flags) + page.Last
	return c, page
}

// unlisted names what the options of the help do not show: other spellings, and options that change nothing.
func (d *Dialect) unlisted(flags []cli.Flag) (text string) {
	var others, accepted []string
	for _, f := range flags {
		f := f.(*Flag)
		shown := strings.Fields(strings.ReplaceAll(f.names(), ",", ""))
		var more []string
		for _, name := range f.Option.AllNames() {
			if name = f.spelling(name); f.Group == GroupAccepted {
				accepted = append(accepted, name)
			} else if !slices.Contains(shown, name) {
				more = append(more, name)
			}
		}
		if more != nil && !f.Refused() && !f.Hidden {
			others = append(others, strings.Join(more, " and ")+" for "+shown[0])
		}
	}
	if others != nil {
		text = "Other spellings: " + strings.Join(others, ", ") + ".\n\n"
	}
	return text + "Accepted without effect: " + strings.Join(accepted, ", ") + ".\n\n"
}

// exitCodes returns a job's exit codes. Other launchers have their own code at the deadline.
func (d *Dialect) exitCodes() []Example {
	if d.timeoutCode == 0 {
		return exitCodes
	}
	codes := []Example{{strconv.Itoa(d.timeoutCode), "--timeout ran out, as with " + d.like}}
	for _, e := range exitCodes {
		if e[0] == "124" {
			e[1] = "--hang-timeout ran out"
		}
		codes = append(codes, e)
	}
	return slices.Concat(codes[1:5], codes[:1], codes[5:])
}

// helpBuilder collects the lines of a help text, or of a manual page in man(7).
type helpBuilder struct {
	strings.Builder
	roff bool
}

func (b *helpBuilder) heading(text string) {
	if b.roff {
		fmt.Fprintf(b, ".SH %s\n", strings.ToUpper(roff(text)))
		return
	}
	fmt.Fprintf(b, "\n%s:\n", text)
}

// last writes the last paragraphs.
func (b *helpBuilder) last(text string) {
	if b.roff && text != "" {
		b.heading("Notes")
	}
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if !b.roff {
			b.WriteByte('\n')
		}
		b.paragraph("", paragraph)
	}
}

func (b *helpBuilder) exitCodes(codes []Example) {
	b.heading("Exit codes")
	for _, e := range codes {
		b.row(e[0], e[1])
	}
}

// groups writes options under their headings.
func (b *helpBuilder) groups(c *cli.Command, page Page) {
	order := slices.Clone(page.First)
	for g := range numHelpGroups {
		order = append(order, g)
	}
	for _, g := range order {
		under := func(f *Flag) int {
			if f.Group != g || slices.Contains(page.Often, f.Name()) {
				return -1
			}
			return 0
		}
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return !f.(*Flag).Hidden && under(f.(*Flag)) >= 0 }) {
			b.heading(g.String())
			b.options(c, under)
		}
		if g == GroupRanks && page.Often == nil {
			b.paragraph("  ", page.Ranks)
		}
	}
}

// options writes the options for which place is not negative, in its order.
func (b *helpBuilder) options(c *cli.Command, place func(*Flag) int) {
	flags := slices.DeleteFunc(slices.Clone(c.Flags), func(f cli.Flag) bool {
		return f.(*Flag).Hidden || place(f.(*Flag)) < 0
	})
	slices.SortStableFunc(flags, func(a, b cli.Flag) int { return place(a.(*Flag)) - place(b.(*Flag)) })
	for _, f := range flags {
		b.row(f.(*Flag).Usage(), f.(*Flag).Help)
	}
}

// RanksOfJobs tells the default number of ranks.
const RanksOfJobs = "With neither: the slots of -H or --hostfile, else one rank per GPU, else one."

// countDefault tells the dialect's default number of ranks.
func (d *Dialect) countDefault() string {
	switch d.slots {
	case slotsOfOpenMPI:
		return "Without a number of ranks: one per core of this host, or the slots of -H or --hostfile."
	case slotsOfHydra:
		return "Without a number of ranks: one, or the slots of -H or --hostfile."
	}
	if d.count > 0 {
		return fmt.Sprintf("Without --nproc-per-node: %d.", d.count)
	}
	return RanksOfJobs
}

// Usage returns the option as the help shows it: the short name and the first long one, with the value.
func (f *Flag) Usage() string {
	if f.TakesValue() {
		return f.names() + " " + f.Value
	}
	return f.names()
}

func (f *Flag) names() string {
	if short := f.short(); short != "" && short != f.Name() {
		return f.spelling(short) + ", " + f.spelling(f.Name())
	}
	return f.spelling(f.Name())
}

func (f *Flag) spelling(name string) string {
	if f.oneDash {
		return "-" + name
	}
	return Spelling(name)
}

// Usage is that of a Flag with two dashes.
func (o *Option) Usage() string { return (&Flag{Option: o}).Usage() }

// example writes a command line and its meaning, on two lines if they do not fit on one.
func (b *helpBuilder) example(e Example) {
	if b.roff {
		b.row(e[0], e[1])
		return
	}
	if len(e[0]) <= 38 && len(e[1]) <= helpWidth-42 {
		fmt.Fprintf(b, "  %-38s  %s\n", e[0], e[1])
		return
	}
	fmt.Fprintf(b, "  %s\n      %s\n", e[0], e[1])
}

// row writes two columns; a long left one gets its own line.
func (b *helpBuilder) row(left, right string) {
	if b.roff {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(left), roff(right))
		return
	}
	left = "  " + left
	for _, line := range printable.Wrap(right, helpWidth-helpColumn) {
		if len(left) > helpColumn-2 {
			fmt.Fprintln(b, left)
			left = ""
		}
		fmt.Fprintf(b, "%-*s%s\n", helpColumn, left, line)
		left = ""
	}
}

// paragraph writes wrapped, indented text.
func (b *helpBuilder) paragraph(indent, text string) {
	if text == "" {
		return
	}
	if b.roff {
		b.roffParagraph(roff(text))
		return
	}
	for _, line := range printable.Wrap(text, helpWidth-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}
