package dialect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gorun/placement"
)

// placeTable holds the options that say where on its host a rank runs, as mpirun,
// Hydra and torchrun spell them. So far gorun only shows that.
var placeTable = []Option{
	{
		Names: []string{"map-by"}, Group: GroupPlaces, Value: "OBJECT", from: varNone,
		Help: "what ranks are dealt to: slot, numa, package, l3cache, l2cache, core, hwthread, gpu, nic, dist, ppr:N:OBJECT; with :pe=N, :span, :oversubscribe behind it",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Place.MapBy, err = placed("--map-by", a, placement.ParseMapBy)
			p.inv.Topo.Place.MapBy.From = a.from
			return err
		},
	},
	{
		Names: []string{"bind-to"}, Group: GroupPlaces, Value: "OBJECT", from: varNone,
		Help: "the CPUs of which object each rank gets: none, hwthread, core, l2cache, l3cache, numa, package",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Place.BindTo, err = placed("--bind-to", a, placement.ParseBindTo)
			p.inv.Topo.Place.BindTo.From = a.from
			return err
		},
	},
	{
		Names: []string{"rank-by"}, Group: GroupPlaces, Value: "OBJECT", from: varNone,
		Help: "in which order ranks are numbered: as in --map-by, or fill, span",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Place.RankBy, err = placed("--rank-by", a, placement.ParseRankBy)
			p.inv.Topo.Place.RankBy.From = a.from
			return err
		},
	},
	{
		Names: []string{"numa-binding"}, Group: GroupPlaces, Value: "MODE", Choices: []string{"node", "socket", "exclusive", "core-complex"}, from: varNone,
		Help: "torchrun's binding: node, socket, exclusive or core-complex of each rank's GPU",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Place.NUMABinding, err = placed("--numa-binding", a, placement.ParseNUMABinding)
			return err
		},
	},
	{
		Names: []string{"cpus-per-rank"}, Group: GroupPlaces, Value: "N", from: varNone,
		Help: "CPUs of each rank, in whole cores",
		set:  func(p *parser, a arg) error { return parseEach(&p.inv.Topo.Place.CPUsPerRank, a) },
	},
	{
		Names: []string{"gpus-per-rank"}, Group: GroupPlaces, Value: "N", from: varNone,
		Help: "GPUs of each rank",
		set:  func(p *parser, a arg) error { return parseEach(&p.inv.Topo.Place.GPUsPerRank, a) },
	},
	{
		Names: []string{"gpus"}, Group: GroupPlaces, Value: "LIST|free", Choices: []string{"free"}, from: varNone,
		Help: "which GPUs ranks get: by index, such as 2,4,7, or those that no process uses",
		set: func(p *parser, a arg) (err error) {
			p.inv.Topo.Place.GPUs, err = placed("--gpus", a, placement.ParseGPUs)
			p.inv.Topo.Place.GPUs.From = a.from
			return err
		},
	},
	{
		Names: []string{"rankfile", "rf"}, Group: GroupPlaces, Value: "FILE", from: varNone,
		Help: "a place for each rank, as a rank file of mpirun says it; its first host is the machine that is shown",
		set:  (*parser).setRankFile,
	},
}

// setRankFile reads the file at once, since its mistakes are the command line's.
func (p *parser) setRankFile(a arg) error {
	text, err := p.around.ReadFile(a.value)
	if err != nil {
		return err
	}
	p.inv.Topo.Place.RankFile, err = placement.ParseRankFile(a.from, string(text))
	if err != nil {
		return errors.New(strings.TrimLeft(strings.TrimPrefix(err.Error(), a.from), ": "))
	}
	return nil
}

// placed reads a wish about places. The parsers' errors begin with the option,
// which is said already.
func placed[T any](option string, a arg, parse func(string) (T, error)) (T, error) {
	wish, err := parse(a.value)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), option+" "+a.value)
		err = errors.New(strings.TrimPrefix(strings.TrimPrefix(text, option), ": "))
	}
	return wish, err
}

// parseEach reads how much each rank gets.
func parseEach(into *int, a arg) error {
	n, err := strconv.Atoi(a.value)
	if err != nil || n < 1 || n > maxRanks {
		return fmt.Errorf("not a number from 1 to %d", maxRanks)
	}
	*into = n
	return nil
}
