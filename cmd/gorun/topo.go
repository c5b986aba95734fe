package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/internal/printable"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/draw"
	"gorun/placement/sysfs"
)

// topoOptions are those of gorun topo. Its Spec says where ranks would be placed.
type topoOptions struct {
	*commandLine
	from          string // directory of a saved machine
	example       string // name of an example; without both, this machine
	save          string // directory for this machine's files
	svg           string // file; "-" is standard output
	writeRankFile string // file; "-" is standard output
	impact        bool   // predict an all-reduce
	modelSize     int64  // in bytes
	ranks         int
	perNode       job.Count
}

func topoCommand(c *commandLine) *command {
	o := &topoOptions{commandLine: c}
	ranks := []*option{{
		Names: "np n c", Group: dialect.GroupRanks, Value: "N", Attached: true,
		Help: "place N ranks",
		Set:  dialect.Parsed(&o.ranks, dialect.ParseRanks),
	}, {
		Names: "nproc-per-node", Group: dialect.GroupRanks, Value: "N|auto|gpu|cpu",
		Choices: "auto|gpu|cpu",
		Help:    "place N ranks, or one for each GPU or CPU (auto: GPU, else CPU)",
		Set:     dialect.Parsed(&o.perNode, dialect.ParseCount),
	}}
	c.record(ranks...)
	others := append(c.group(dialect.GroupMachine, option{
		Names: "from", Value: "DIR", Dirs: true, Set: dialect.Text(&o.from),
		Help: "show the machine that --save wrote to DIR (this machine)",
	}, option{
		Names: "example", Value: "NAME", Set: dialect.Text(&o.example),
		Choices: strings.Join(append(placement.Examples(), "list"), "|"),
		Help:    "show a typical machine; --example list names all",
	}, option{
		Names: "save", Value: "DIR", Dirs: true, Set: dialect.Text(&o.save),
		Help: "write this machine to a new DIR, without serial numbers and MACs",
	}), c.group(dialect.GroupShown, option{
		Names: "svg", Value: "FILE", Set: dialect.Text(&o.svg),
		Help: "write a drawing to FILE instead; - is standard output",
	}, option{
		Names: "write-rankfile", Value: "FILE", Set: dialect.Text(&o.writeRankFile),
		Help: "write a rank file to FILE instead; - is standard output",
	}, c.jsonOption("print the machine and its ranks as JSON"), option{
		Names: "impact", Set: dialect.Switch(&o.impact),
		Help: "predict the time of an all-reduce over the slowest link of the GPUs",
	}, option{
		Names: "model-size", Value: "SIZE",
		Help: "assume SIZE bytes on each GPU for --impact: 7.5GB, 7GiB, 1000000",
		Set:  dialect.Parsed(&o.modelSize, dialect.ParseModelSize),
	})...)
	return &command{
		request: o,
		Command: cli.Command{
			Usage: "draw a machine, and where ranks run on it",
			Description: "gorun topo draws a machine as jobs see it: packages, NUMA nodes, caches, cores, GPUs and NICs, and " +
				"how near they are to each other. It starts no rank.",
			Flags: c.Flags(slices.Concat(ranks, others, c.group(dialect.GroupPlaces, c.PlaceOptions(dialect.NoVar)...))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun topo", "this machine"},
				{"gorun topo -n 8 --map-by numa", "and where 8 ranks run on it"},
				{"gorun topo --example dgx-h100 --svg dgx.svg", "a typical machine, as a drawing"},
				{"gorun topo --example dgx-h100 --model-size 7.5GB", "what its links mean for an all-reduce"},
				{"gorun topo --save my-machine", "the files of this one, for a bug report"},
			},
			Ranks: "Without these options and placement options: no ranks.",
			Codes: []dialect.Example{
				{"0", "it was shown"},
				{"2", "a mistake on the command line"},
				{"125", "an impossible machine or mapping, or a file that cannot be read or written"},
			},
			Last: "The picture is in ASCII unless LC_ALL, LC_CTYPE or LANG names UTF-8. More: docs/placement.md.",
		},
	}
}

// places reports whether ranks are to be placed.
func (o *topoOptions) places() bool {
	return o.ranks > 0 || o.perNode.Kind != job.CountUnset || !reflect.ValueOf(o.Spec.Place).IsZero()
}

func (o *topoOptions) check(words []string) {
	o.refuseArguments("topo", words)
	o.perNode.From = o.sources["nproc-per-node"]
	o.impact = o.impact || o.modelSize != 0
	if o.from != "" && o.example != "" {
		o.refuse("--from and --example contradict each other: both name the machine")
	}
	if o.save != "" && (o.from != "" || o.example != "") {
		o.refuse("--save writes the files of this machine: leave out --from and --example")
	}
	o.oneOutput(choice{o.svg == "-", "--svg -"}, choice{o.writeRankFile == "-", "--write-rankfile -"},
		choice{o.JSON, "--json"})
	if o.writeRankFile != "" && !o.places() && o.Err() == nil {
		o.refuse("--write-rankfile needs ranks: add their number, such as -n 4")
	}
	if o.impact && o.modelSize == 0 && o.Err() == nil {
		o.refuse("--impact needs to know how much is reduced: add --model-size, such as --model-size 7.5GB")
	}
	if o.ranks > 0 && o.perNode.Kind == job.CountFixed && o.perNode.N != o.ranks {
		o.refuse("%s contradicts %s, which makes %d on one host", o.sources["np"], o.perNode.From, o.perNode.N)
	}
	o.NoteUnknownVariables()
}

func (o *topoOptions) run() error {
	if o.example == "list" {
		_, err := fmt.Fprintln(o.stdout, strings.Join(placement.Examples(), "\n"))
		return err
	}
	if o.save != "" {
		return o.saveMachine()
	}
	m, err := o.machine()
	if err != nil {
		return err
	}
	layout, err := o.layout(m)
	if err != nil {
		return unfit(err)
	}
	t := topology{m, layout, placements(layout), nil}
	if o.impact {
		if t.impact, err = draw.Predict(m, o.modelSize); err != nil {
			return unfit(optionError("--impact", err))
		}
	}
	switch wrote, err := o.writeFiles(t); {
	case err != nil || wrote && !o.JSON:
		return err
	case o.JSON:
		return show.JSON(o.stdout, "topology", draw.Describe(m, t.placed, layout.Notes, t.impact))
	}
	return o.print(t.text(show.Style(o.stdout)))
}

// unfit is the error of a request that a machine cannot fulfil, with the exit code that a job has for that.
func unfit(err error) error { return exitError{job.ExitUsage, printable.Error(err)} }

// writeFiles writes the drawing and the rankfile, if requested; "-" is standard output.
func (o *topoOptions) writeFiles(t topology) (wrote bool, err error) {
	for _, file := range []struct {
		option, name string
		text         func() (string, error)
	}{
		{"--svg", o.svg, func() (string, error) { return draw.SVG(t.Machine, t.placed), nil }},
		{"--write-rankfile", o.writeRankFile, t.rankFile},
	} {
		if file.name == "" {
			continue
		}
		wrote = true
		text, err := file.text()
		switch {
		case err != nil:
			return true, unfit(optionError(file.option, err))
		case file.name == "-":
			err = o.print(text)
		default:
			err = writeTo(file.name, text)
		}
		if err != nil {
			return true, optionError(file.option, err)
		}
	}
	return wrote, nil
}

// topology is a machine with the ranks on it.
type topology struct {
	placement.Machine
	layout placement.Layout
	placed []draw.Placement
	impact *draw.Impact // nil: not requested
}

// rankFile is for any first host.
func (t topology) rankFile() (string, error) {
	return t.layout.RankFile([]string{"+n0"}, []placement.Machine{t.Machine})
}

// text is the picture, the matrix, the ranks and the prediction.
func (t topology) text(style draw.Style) string {
	parts := []string{draw.Picture(t.Machine, t.placed, style), draw.Matrix(t.Machine, style)}
	if t.placed != nil {
		parts = append(parts, draw.Notes(append([]string{t.layout.Reason}, t.layout.Notes...), style)+
			draw.Placements(t.Machine, t.placed, style))
	}
	if t.impact != nil {
		parts = append(parts, t.impact.Text(style))
	}
	return show.Join("\n", parts...)
}

// allFacts is everything that sysfs can tell of a machine.
var allFacts = sysfs.Needs{CPUs: true, Memory: true, GPUs: true, Topology: true, NICs: true, Links: true}

// machine is this machine, a saved one, or an example.
func (o *topoOptions) machine() (placement.Machine, error) {
	switch {
	case o.example != "":
		m, err := placement.Example(o.example)
		if err != nil {
			return m, unfit(optionError("--example", err))
		}
		return m, nil
	case o.from != "":
		m, err := sysfs.ReadSaved(o.from, allFacts)
		return withNVLinkNote(m), optionError("--from", err)
	}
	m := sysfs.Read(allFacts)
	m.Notes = append(m.Notes, addNVMLFacts(&m)...)
	return m, nil
}

// withNVLinkNote notes that a saved machine has no NVLinks: only NVML knows them, sysfs does not.
func withNVLinkNote(m placement.Machine) placement.Machine {
	gpus := 0
	for _, g := range m.GPUs {
		if g.Vendor == placement.NVIDIA && len(g.Links) == 0 {
			gpus++
		}
	}
	if gpus > 1 {
		m.Notes = append(m.Notes, "NVLinks are unknown: only NVIDIA's library tells them, which was not asked; paths "+
			"between GPUs are those of PCIe")
	}
	return m
}

func (o *topoOptions) saveMachine() error {
	m := sysfs.Read(allFacts)
	notes := addNVMLFacts(&m)
	if err := sysfs.Save(o.save, m.GPUs); err != nil {
		return optionError("--save", err)
	}
	text := fmt.Sprintf("saved this machine to %s; gorun topo --from %[1]s shows it\n", printable.Text(o.save))
	for _, note := range notes {
		text += "note: " + printable.Text(note) + "\n"
	}
	return o.print(text)
}

// layout places the ranks, if any are requested.
func (o *topoOptions) layout(m placement.Machine) (placement.Layout, error) {
	if !o.places() {
		return placement.Layout{}, nil
	}
	req := o.Spec.Place.Request
	req.Ranks, req.RanksFrom, req.PerNode = o.ranks, o.sources["np"], o.perNode
	if req.RankFile != nil { // its first host is the machine
		req.Hosts = []string{req.RankFile.Lines[0].Host}
	}
	if o.from == "" && o.example == "" {
		req.Visible = placement.VisibilityOf(os.Environ())
	}
	return placement.Map(req, []placement.Machine{m})
}

// placements converts a layout for drawing.
func placements(layout placement.Layout) (placed []draw.Placement) {
	for rank, r := range layout.Ranks {
		placed = append(placed, draw.Placement{Rank: rank, CPUs: r.CPUs, Memories: r.Memories, GPUs: r.GPUs, Why: r.Reason})
	}
	return placed
}
