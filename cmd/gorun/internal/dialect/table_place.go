package dialect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gorun/launcher/job"
	"gorun/placement"
)

// placeTable holds the options of gorun that say where on its host a rank runs, as
// mpirun, Hydra and torchrun spell them; gorun topo shows what they come to.
var placeTable = append(placeOptions(varGorun), []Option{
	{
		Names: []string{"bind-mem"}, Group: GroupPlaces, Value: "POLICY",
		Choices: []string{"preferred", "bind", "interleave", "none"}, family: familyMemory,
		Help: "memory of bound ranks, of the NUMA nodes of their CPUs: preferred, bind (alone: a rank for which they are " +
			"too small is killed), interleave (of all nodes for ranks that are not bound), none (default: preferred)",
		set: (*parser).setMemory,
	},
	{
		Names: []string{"isolate-gpus"}, Group: GroupPlaces, family: familyIsolate,
		Help: "each rank sees its own GPUs alone, by UUID where it is known: they are its devices 0 and up, whatever " +
			"LOCAL_RANK is",
		set: func(p *parser, a arg) error { p.inv.Spec.Place.Isolate = a.on; return nil },
	},
	{
		Names: []string{"report-bindings"}, Group: GroupPlaces, from: varNone,
		Help: "say on standard error where each rank is; called mpirun in Open MPI's words",
		set:  (*parser).setReportBindings,
	},
}...)

// place is the wish that an option is about.
func (p *parser) place() *job.PlaceWish {
	if p.dialect.shows {
		return &p.inv.Topo.Place
	}
	if p.later {
		return p.ownPlace()
	}
	return &p.inv.Spec.Place
}

func (p *parser) setMemory(a arg) error {
	memories := map[string]job.MemoryWish{
		"preferred": job.MemoryPreferred, "bind": job.MemoryBind, "interleave": job.MemoryInterleave, "none": job.MemoryNone,
	}
	p.inv.Spec.Place.Memory = memories[a.value]
	return oneOf(a.value, "preferred", "bind", "interleave", "none")
}

// placeOptions are those that gorun topo has, too, but without variables.
func placeOptions(from variables) []Option {
	return []Option{
		{
			Names: []string{"map-by"}, Group: GroupPlaces, Value: "OBJECT", from: from, block: true, family: familyMap,
			Help: "what ranks are dealt to: slot, numa, package, l3cache, l2cache, core, hwthread, gpu, nic, dist, " +
				"ppr:N:OBJECT; with :pe=N, :span, :oversubscribe behind it",
			set: func(p *parser, a arg) error { return p.setMapBy(a, a.value) },
		},
		{
			Names: []string{"bind-to"}, Group: GroupPlaces, Value: "OBJECT", from: from, block: true, family: familyBind,
			Help: "the CPUs of which object each rank gets: none, hwthread, core, l2cache, l3cache, numa, package",
			set:  (*parser).setBindTo,
		},
		{
			Names: []string{"rank-by"}, Group: GroupPlaces, Value: "OBJECT", from: from, block: true, family: familyRank,
			Help: "in which order ranks are numbered: as in --map-by, or fill, span",
			set:  (*parser).setRankBy,
		},
		{
			Names: []string{"numa-binding"}, Group: GroupPlaces, Value: "MODE",
			Choices: []string{"node", "socket", "exclusive", "core-complex"}, from: numaBindingFrom(from), block: true,
			family: familyNUMA,
			Help:   "torchrun's binding: node, socket, exclusive or core-complex of each rank's GPU",
			set: func(p *parser, a arg) (err error) {
				p.place().NUMABinding, err = placed("--numa-binding", a, placement.ParseNUMABinding)
				return err
			},
		},
		{
			Names: []string{"cpus-per-rank"}, Group: GroupPlaces, Value: "N", from: from, block: true, family: familyCPUs,
			Help: "CPUs of each rank, in whole cores",
			set:  func(p *parser, a arg) error { return parseEach(&p.place().CPUsPerRank, a) },
		},
		{
			Names: []string{"gpus-per-rank"}, Group: GroupPlaces, Value: "N", from: from, block: true, family: familyGPUs,
			Help: "GPUs of each rank",
			set:  func(p *parser, a arg) error { return parseEach(&p.place().GPUsPerRank, a) },
		},
		{
			Names: []string{"gpus"}, Group: GroupPlaces, Value: "LIST|free", Choices: []string{"free"}, from: from,
			Help: "which GPUs ranks get: by index, such as 2,4,7, or those that no process uses",
			set: func(p *parser, a arg) (err error) {
				p.place().GPUs, err = placed("--gpus", a, placement.ParseGPUs)
				p.place().GPUs.From = a.from
				return err
			},
		},
		{
			Names: []string{"rankfile", "rf"}, Group: GroupPlaces, Value: "FILE", from: from, family: familyRankFile,
			Help: "a place for each rank, as a rank file of mpirun says it",
			set:  (*parser).setRankFile,
		},
	}
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

// numaBindingFrom: torchrun has the option, too.
func numaBindingFrom(from variables) variables {
	if from == varGorun {
		return varBoth
	}
	return from
}

// setRankFile reads the file at once, since its mistakes are the command line's.
func (p *parser) setRankFile(a arg) error {
	text, err := p.around.ReadFile(a.value)
	if err != nil {
		return err
	}
	p.place().RankFile, err = placement.ParseRankFile(a.from, string(text))
	if err != nil {
		return errors.New(strings.TrimLeft(strings.TrimPrefix(err.Error(), a.from), ": "))
	}
	return nil
}
