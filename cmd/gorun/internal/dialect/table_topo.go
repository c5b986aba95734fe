package dialect

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"gorun/launcher/job"
)

// Topo is the command line of gorun topo, which has no program.
var Topo = &Dialect{
	Name: "gorun topo",
	About: "gorun topo shows a machine as jobs see it: packages, NUMA nodes, caches, cores, GPUs and NICs, and how near " +
		"they are to each other. It starts no rank.",
	examples: []example{
		{"gorun topo", "this machine"},
		{"gorun topo -n 8 --map-by numa", "and where 8 ranks would sit on it"},
		{"gorun topo --example dgx-h100 --svg dgx.svg", "a typical machine, as a drawing"},
		{"gorun topo --example dgx-h100 --model-size 7.5GB", "what its links mean for an all-reduce"},
		{"gorun topo --save my-machine", "the files of this one, for a bug report"},
	},
	tables: append([][]Option{topoTable, placeOptions(varNone)}, rows(ownTable, "version", "help")...),
	shows:  true,
	codes: []example{
		{"0", "it was shown"},
		{"2", "a mistake on the command line"},
		{"125", "a machine or a mapping that cannot be, or a file that cannot be read or written"},
	},
	last: "The picture is drawn with other characters than ASCII where LC_ALL, LC_CTYPE or LANG names UTF-8. More: " +
		"docs/topo.md.",
}

// TopoWish is what gorun topo is to show.
type TopoWish struct {
	From    string // folder of a saved machine
	Example string // name of a typical machine; with neither it is this machine
	Save    string // folder for this machine's files; "" saves nothing
	SVG     string // file for a drawing; "-" is standard output
	// WriteRankFile is the file for the places of the ranks, "-" standard output.
	WriteRankFile string

	Impact    bool  // predict an all-reduce
	ModelSize int64 // of that many bytes

	// Ranks and PerNode say how many ranks are to be seated.
	Ranks     int
	RanksFrom string
	PerNode   job.Count
	// Place says where they are to sit.
	Place job.PlaceWish
}

// Seats reports whether somebody is to be seated.
func (w TopoWish) Seats() bool {
	return w.Ranks > 0 || w.PerNode.Kind != job.CountUnset || !reflect.ValueOf(w.Place).IsZero()
}

// topoTable holds the options of gorun topo alone. Those that gorun has, too, mean
// the same: how many ranks, and where they would sit.
var topoTable = []Option{
	{
		Names: []string{"np", "n", "c"}, Group: GroupRanks, Value: "N", attached: true,
		Help: "number of ranks to seat",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Ranks, err = parseRanks(a.value)
			p.inv.Topo.RanksFrom = a.from
			return err
		},
	},
	{
		Names: []string{"nproc-per-node"}, Group: GroupRanks, Value: "N|auto|gpu|cpu",
		Choices: []string{"auto", "gpu", "cpu"},
		Help:    "the same: a number, one per GPU, one per CPU, or auto (one per GPU, else per CPU)",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.PerNode, err = parseCount(a.value)
			p.inv.Topo.PerNode.From = a.from
			return err
		},
	},
	{
		Names: []string{"from"}, Group: GroupMachine, Value: "DIR", dirs: true, from: varNone,
		Help: "the machine that --save wrote to DIR (default: this machine)",
		set:  func(p *parser, a arg) error { return text(&p.inv.Topo.From, a) },
	},
	{
		Names: []string{"example"}, Group: GroupMachine, Value: "NAME", from: varNone,
		Help: "a typical machine in place of this one; a name that there is not lists those that there are",
		set:  func(p *parser, a arg) error { return text(&p.inv.Topo.Example, a) },
	},
	{
		Names: []string{"save"}, Group: GroupMachine, Value: "DIR", dirs: true, from: varNone,
		Help: "write the files from which gorun knows this machine to a new DIR, without serial numbers and MAC addresses, " +
			"and show nothing: for a bug report",
		set: func(p *parser, a arg) error { return text(&p.inv.Topo.Save, a) },
	},
	{
		Names: []string{"svg"}, Group: GroupShown, Value: "FILE", from: varNone,
		Help: "write a drawing to scale, for a browser, to FILE and print no picture; - is standard output",
		set:  func(p *parser, a arg) error { return text(&p.inv.Topo.SVG, a) },
	},
	{
		Names: []string{"write-rankfile"}, Group: GroupShown, Value: "FILE", from: varNone,
		Help: "write where the ranks would sit as a rank file, which --rankfile and mpirun read, to FILE and print no " +
			"picture; - is standard output",
		set: func(p *parser, a arg) error { return text(&p.inv.Topo.WriteRankFile, a) },
	},
	{
		Names: []string{"json"}, Group: GroupShown, from: varNone,
		Help: "print everything as JSON in place of the picture",
		set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
	{
		Names: []string{"impact"}, Group: GroupShown, from: varNone,
		Help: "predict how long an all-reduce of --model-size takes over the GPUs' slowest link, with the formula and what " +
			"is assumed",
		set: func(p *parser, a arg) error { p.inv.Topo.Impact = a.on; return nil },
	},
	{
		Names: []string{"model-size"}, Group: GroupShown, Value: "SIZE", from: varNone,
		Help: "bytes that each GPU has, for --impact, which this asks for, too; SIZE is 7.5GB (10^9), 7GiB (2^30), 500MB, " +
			"1000000",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Impact = true
			p.inv.Topo.ModelSize, err = parseModelSize(a.value)
			return err
		},
	},
}

// finishShow makes an Invocation of the options of gorun topo.
func (p *parser) finishShow() (Invocation, error) {
	wish := &p.inv.Topo
	if app := p.inv.Spec.Apps[0]; app.Args != nil {
		p.problem(fmt.Errorf("%s: %s takes no arguments; gorun ./topo starts a program of that name",
			typed([]string{app.Program}), p.dialect.Name))
	}
	if wish.From != "" && wish.Example != "" {
		p.problem(errors.New("--from and --example contradict each other: both name the machine"))
	}
	if wish.Save != "" && (wish.From != "" || wish.Example != "") {
		p.problem(errors.New("--save writes the files of this machine: leave out --from and --example"))
	}
	p.oneOutput()
	if wish.WriteRankFile != "" && !wish.Seats() && p.problems == nil {
		p.problem(errors.New("--write-rankfile needs ranks: add their number, such as -n 4"))
	}
	if wish.Impact && wish.ModelSize == 0 && p.problems == nil {
		p.problem(errors.New("--impact needs to know how much is reduced: add --model-size, such as --model-size 7.5GB"))
	}
	if wish.Ranks > 0 && wish.PerNode.Kind == job.CountFixed && wish.PerNode.N != wish.Ranks {
		p.problem(fmt.Errorf("%s contradicts %s, which makes %d on one host", wish.RanksFrom, wish.PerNode.From,
			wish.PerNode.N))
	}
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.noteStrangers()
	p.inv.Action, p.inv.Spec = Show, job.Spec{}
	return p.inv, nil
}

// oneOutput refuses several outputs on standard output.
func (p *parser) oneOutput() {
	var outputs []string
	for _, o := range []struct {
		wanted bool
		name   string
	}{
		{p.inv.Topo.SVG == "-", "--svg -"},
		{p.inv.Topo.WriteRankFile == "-", "--write-rankfile -"},
		{p.inv.JSON, "--json"},
	} {
		if o.wanted {
			outputs = append(outputs, o.name)
		}
	}
	if len(outputs) > 1 {
		p.problem(fmt.Errorf("%s and %s contradict each other: both want standard output", outputs[0], outputs[1]))
	}
}

// modelUnits are the units of sizes that stand beside bandwidths, which are decimal.
var modelUnits = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"b", 1},
}

// parseModelSize reads a number of bytes, with a fraction or not: 7.5GB is decimal,
// 7GiB binary.
func parseModelSize(value string) (int64, error) {
	number, unit := strings.ToLower(strings.TrimSpace(value)), 1.0
	for _, u := range modelUnits {
		if cut, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(cut), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if size := n * unit; err == nil && size >= 1 && size < math.MaxInt64 {
		return int64(math.Round(size)), nil
	}
	return 0, errors.New("not a size; write 7.5GB (10^9 bytes), 7GiB (2^30 bytes), 500MB or a number of bytes")
}
