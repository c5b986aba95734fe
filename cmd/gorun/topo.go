package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/draw"
	"gorun/placement/sysfs"
)

// topoOptions are those of gorun topo. Those that gorun has, too, mean the same: how many ranks, and where they would
// sit (Spec.Place).
type topoOptions struct {
	*call
	from          string // folder of a saved machine
	example       string // name of a typical machine; with neither it is this machine
	save          string // folder for this machine's files; "" saves nothing
	svg           string // file for a drawing; "-" is standard output
	writeRankFile string // file for the places of the ranks, "-" standard output
	impact        bool   // predict an all-reduce
	modelSize     int64  // of that many bytes
	ranks         int
	ranksFrom     string
	perNode       job.Count
}

func topoCommand(c *call) *command {
	o := &topoOptions{call: c}
	ranks := []*option{{
		Names: []string{"np", "n", "c"}, Group: dialect.GroupRanks, Value: "N", Attached: true,
		Help: "number of ranks to seat",
		Set:  saidBy(&o.ranksFrom, &o.ranks, dialect.ParseRanks),
	}, {
		Names: []string{"nproc-per-node"}, Group: dialect.GroupRanks, Value: "N|auto|gpu|cpu",
		Choices: []string{"auto", "gpu", "cpu"},
		Help:    "the same: a number, one per GPU, one per CPU, or auto (one per GPU, else per CPU)",
		Set:     saidBy(&o.perNode.From, &o.perNode, dialect.ParseCount),
	}}
	others := append(own(dialect.GroupMachine, option{
		Names: []string{"from"}, Value: "DIR", Dirs: true, Set: dialect.Text(&o.from),
		Help: "the machine that --save wrote to DIR (default: this machine)",
	}, option{
		Names: []string{"example"}, Value: "NAME", Set: dialect.Text(&o.example),
		Help: "a typical machine in place of this one; a name that there is not lists those that there are",
	}, option{
		Names: []string{"save"}, Value: "DIR", Dirs: true, Set: dialect.Text(&o.save),
		Help: "write the files from which gorun knows this machine to a new DIR, without serial numbers and MAC addresses, " +
			"and show nothing: for a bug report",
	}), own(dialect.GroupShown, option{
		Names: []string{"svg"}, Value: "FILE", Set: dialect.Text(&o.svg),
		Help: "write a drawing to scale, for a browser, to FILE and print no picture; - is standard output",
	}, option{
		Names: []string{"write-rankfile"}, Value: "FILE", Set: dialect.Text(&o.writeRankFile),
		Help: "write where the ranks would sit as a rank file, which --rankfile and mpirun read, to FILE and print no " +
			"picture; - is standard output",
	}, c.jsonOption("print everything as JSON in place of the picture"), option{
		Names: []string{"impact"}, Set: dialect.Switch(&o.impact),
		Help: "predict how long an all-reduce of --model-size takes over the GPUs' slowest link, with the formula and what " +
			"is assumed",
	}, option{
		Names: []string{"model-size"}, Value: "SIZE",
		Help: "bytes that each GPU has, for --impact, which this asks for, too; SIZE is 7.5GB (10^9), 7GiB (2^30), 500MB, " +
			"1000000",
		Set: dialect.Parsed(&o.modelSize, dialect.ParseModelSize),
	})...)
	return &command{
		request: o,
		Command: cli.Command{
			Usage: "show this machine, or another, and who would sit where on it",
			Description: "gorun topo shows a machine as jobs see it: packages, NUMA nodes, caches, cores, GPUs and NICs, and " +
				"how near they are to each other. It starts no rank.",
			Flags: c.Flags(slices.Concat(ranks, others, own(dialect.GroupPlaces, c.PlaceOptions(dialect.NoVar)...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun topo", "this machine"},
				{"gorun topo -n 8 --map-by numa", "and where 8 ranks would sit on it"},
				{"gorun topo --example dgx-h100 --svg dgx.svg", "a typical machine, as a drawing"},
				{"gorun topo --example dgx-h100 --model-size 7.5GB", "what its links mean for an all-reduce"},
				{"gorun topo --save my-machine", "the files of this one, for a bug report"},
			},
			Ranks: "Without any of these two, nor a wish for who sits where: nobody is seated.",
			Codes: []dialect.Example{
				{"0", "it was shown"},
				{"2", "a mistake on the command line"},
				{"125", "a machine or a mapping that cannot be, or a file that cannot be read or written"},
			},
			Last: "The picture is drawn with other characters than ASCII where LC_ALL, LC_CTYPE or LANG names UTF-8. More: " +
				"docs/placement.md.",
		},
	}
}

// seats reports whether somebody is to be seated.
func (o *topoOptions) seats() bool {
	return o.ranks > 0 || o.perNode.Kind != job.CountUnset || !reflect.ValueOf(o.Spec.Place).IsZero()
}

func (o *topoOptions) check(words []string) {
	o.noWords("topo", words)
	o.impact = o.impact || o.modelSize != 0
	if o.from != "" && o.example != "" {
		o.problem("--from and --example contradict each other: both name the machine")
	}
	if o.save != "" && (o.from != "" || o.example != "") {
		o.problem("--save writes the files of this machine: leave out --from and --example")
	}
	o.oneOutput(ifGiven(o.svg == "-", "--svg -"), ifGiven(o.writeRankFile == "-", "--write-rankfile -"),
		ifGiven(o.JSON, "--json"))
	if o.writeRankFile != "" && !o.seats() && o.Err() == nil {
		o.problem("--write-rankfile needs ranks: add their number, such as -n 4")
	}
	if o.impact && o.modelSize == 0 && o.Err() == nil {
		o.problem("--impact needs to know how much is reduced: add --model-size, such as --model-size 7.5GB")
	}
	if o.ranks > 0 && o.perNode.Kind == job.CountFixed && o.perNode.N != o.ranks {
		o.problem("%s contradicts %s, which makes %d on one host", o.ranksFrom, o.perNode.From, o.perNode.N)
	}
	o.NoteUnknownVariables()
}

// run shows a machine, and who would sit where on it.
func (o *topoOptions) run() error {
	text, err := o.text(textStyle(o.stdout))
	if err != nil {
		return err
	}
	return o.write(text)
}

// unfit is the error of a machine that cannot give what the command line wishes, which has a job's exit code for the
// same.
func unfit(err error) error { return failure{job.ExitUsage, err.Error()} }

// text does what a command line of gorun topo asks for and returns what is to be
// printed.
func (o *topoOptions) text(style draw.Style) (string, error) {
	if o.save != "" {
		return savedTo(o.save)
	}
	m, err := wishedMachine(o)
	if err != nil {
		return "", err
	}
	layout, err := seated(o, m)
	if err != nil {
		return "", unfit(err)
	}
	var impact *draw.Impact
	if o.impact {
		if impact, err = draw.Predict(m, o.modelSize); err != nil {
			return "", unfit(of("--impact", err))
		}
	}
	shown := shownMachine{m, layout, seats(layout), impact}
	text, asked, err := shown.files(o)
	switch {
	case err != nil || text != "":
		return text, err
	case o.JSON:
		return draw.JSON(m, shown.seats, layout.Notes, impact)
	case asked:
		return "", nil
	}
	return shown.text(style), nil
}

// files writes the drawing and the rank file that are asked for; text is what of
// them belongs on standard output.
func (s shownMachine) files(wish *topoOptions) (text string, asked bool, err error) {
	for _, file := range []struct {
		option, name string
		text         func() (string, error)
	}{
		{"--svg", wish.svg, func() (string, error) { return draw.SVG(s.Machine, s.seats), nil }},
		{"--write-rankfile", wish.writeRankFile, s.rankFile},
	} {
		if file.name == "" {
			continue
		}
		asked = true
		content, err := file.text()
		switch {
		case err != nil:
			return "", true, unfit(of(file.option, err))
		case file.name == "-":
			text = content
		default:
			// #nosec G306 -- what the umask leaves is the user's choice
			err = os.WriteFile(file.name, []byte(content), 0o666)
		}
		if err != nil {
			return "", true, of(file.option, err)
		}
	}
	return text, asked, nil
}

// rankFile is where the ranks sit as a rank file, for whatever host is the first.
func (s shownMachine) rankFile() (string, error) {
	return s.layout.RankFile([]string{"+n0"}, []placement.Machine{s.Machine})
}

// shownMachine is a machine with all that there is to be said of it.
type shownMachine struct {
	placement.Machine
	layout placement.Layout
	seats  []draw.Seat
	impact *draw.Impact
}

// text is what a terminal gets: the picture, the matrix, who sits where, the
// prediction.
func (s shownMachine) text(style draw.Style) string {
	parts := []string{draw.Picture(s.Machine, s.seats, style), draw.Matrix(s.Machine, style)}
	if s.seats != nil {
		parts = append(parts, draw.Remarks(append([]string{s.layout.Reason}, s.layout.Notes...), style)+
			draw.Seats(s.Machine, s.seats, style))
	}
	if s.impact != nil {
		parts = append(parts, s.impact.Text(style))
	}
	return joined("\n", parts...)
}

// textStyle is how text is to look on this output: as wide as the terminal, and
// with such characters as its locale has.
func textStyle(stdout io.Writer) draw.Style {
	style := draw.Style{ASCII: !hasUTF8(os.Getenv)}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		style.Width = n
	}
	if width := columnsOf(stdout); width > 0 {
		style.Width = width
	}
	return style
}

// columnsOf is how many columns the terminal has, 0 where the output is none or it does not say.
func columnsOf(stdout io.Writer) int {
	f, ok := stdout.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return max(width, 0) // it is negative where there is none
}

// hasUTF8 reports whether the locale's characters are those of UTF-8: of the
// variables that name it the first that is set counts.
func hasUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}

// everything is all that can be known of a machine.
var everything = sysfs.Needs{CPUs: true, Memory: true, GPUs: true, Topology: true, NICs: true, Links: true}

// wishedMachine is this machine, a saved one, or a typical one.
func wishedMachine(wish *topoOptions) (placement.Machine, error) {
	switch {
	case wish.example != "":
		m, err := placement.Example(wish.example)
		if err != nil {
			return m, unfit(of("--example", err))
		}
		return m, nil
	case wish.from != "":
		m, err := sysfs.ReadSaved(wish.from, everything)
		return withNVLinkNote(m), of("--from", err)
	}
	m := sysfs.Read(everything)
	m.Notes = append(m.Notes, askLibrary(&m)...)
	return m, nil
}

// withNVLinkNote says that NVLinks are not known of a saved machine where there may
// be some and NVIDIA's library was not asked: the kernel's files have none.
func withNVLinkNote(m placement.Machine) placement.Machine {
	gpus := 0
	for _, g := range m.GPUs {
		if g.Vendor == placement.NVIDIA && len(g.Links) == 0 {
			gpus++
		}
	}
	if gpus > 1 {
		m.Notes = append(m.Notes, "NVLinks are not known: only NVIDIA's library tells them, which was not asked; paths "+
			"between GPUs are those of PCIe")
	}
	return m
}

// of names the option in an error.
func of(option string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", option, err)
	}
	return err
}

// savedTo saves this machine and says so.
func savedTo(dir string) (string, error) {
	m := sysfs.Read(everything)
	notes := askLibrary(&m) // for what no file tells
	if err := sysfs.Save(dir, m.GPUs); err != nil {
		return "", of("--save", err)
	}
	text := fmt.Sprintf("saved this machine to %s; gorun topo --from %[1]s shows it\n", printable.Text(dir))
	for _, note := range notes {
		text += "note: " + printable.Text(note) + "\n"
	}
	return text, nil
}

// seated says where the wished ranks would sit; nobody does if there is no wish.
func seated(wish *topoOptions, m placement.Machine) (placement.Layout, error) {
	if !wish.seats() {
		return placement.Layout{}, nil
	}
	req := wish.Spec.Place.Request
	req.Ranks, req.RanksFrom, req.PerNode = wish.ranks, wish.ranksFrom, wish.perNode
	req.Hosts, req.Visible = shownHost(req.RankFile), visibility(wish)
	return placement.Map(req, []placement.Machine{m})
}

// shownHost is what a rank file calls the machine that is shown: its first host.
func shownHost(file *placement.RankFile) []string {
	if file == nil {
		return nil
	}
	return []string{file.Lines[0].Host}
}

// visibility is what hides GPUs from ranks here; of another machine it hides none.
func visibility(wish *topoOptions) placement.Visibility {
	if wish.from != "" || wish.example != "" {
		return placement.Visibility{}
	}
	return placement.VisibilityOf(os.Environ())
}

// seats are a layout's ranks as they are drawn.
func seats(layout placement.Layout) []draw.Seat {
	var all []draw.Seat
	for rank, r := range layout.Ranks {
		all = append(all, draw.Seat{Rank: rank, CPUs: r.CPUs, Memories: r.Memories, GPUs: r.GPUs, Why: r.Reason})
	}
	return all
}
