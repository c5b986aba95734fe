package main

import (
	"reflect"
	"slices"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/job"
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
				"docs/topo.md.",
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
	o.NoteStrangers()
}
