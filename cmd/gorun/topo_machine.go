package main

import (
	"fmt"
	"os"

	"gorun/internal/printable"
	"gorun/placement"
	"gorun/placement/draw"
	"gorun/placement/sysfs"
)

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
	place := wish.Spec.Place
	return placement.Map(placement.Request{
		Ranks: wish.ranks, RanksFrom: wish.ranksFrom,
		PerNode: placement.PerNode{
			Kind: placement.PerNodeKind(wish.perNode.Kind), N: wish.perNode.N,
			From: wish.perNode.From,
		},
		MapBy: place.MapBy, BindTo: place.BindTo, RankBy: place.RankBy, NUMABinding: place.NUMABinding,
		CPUsPerRank: place.CPUsPerRank, GPUsPerRank: place.GPUsPerRank, GPUs: place.GPUs,
		RankFile: place.RankFile, Hosts: shownHost(place.RankFile),
		Visible: visibility(wish),
	}, []placement.Machine{m})
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
