package main

import (
	"fmt"
	"os"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/placement"
	"gorun/placement/draw"
	"gorun/placement/sysfs"
)

// everything is all that can be known of a machine.
var everything = sysfs.Needs{CPUs: true, Memory: true, GPUs: true, Topology: true}

// wishedMachine is this machine, or a typical one.
func wishedMachine(wish dialect.TopoWish) (placement.Machine, error) {
	if wish.Example == "" {
		return sysfs.Read(everything), nil
	}
	m, err := placement.Example(wish.Example)
	if err != nil {
		err = fmt.Errorf("--example: %w", err)
	}
	return m, err
}

// seated says where the wished ranks would sit; nobody does if there is no wish.
func seated(wish dialect.TopoWish, m placement.Machine) (placement.Layout, error) {
	if !wish.Seats() {
		return placement.Layout{}, nil
	}
	place := wish.Place
	return placement.Map(placement.Request{
		Ranks: wish.Ranks, RanksFrom: wish.RanksFrom,
		PerNode: placement.PerNode{Kind: placement.PerNodeKind(wish.PerNode.Kind), N: wish.PerNode.N, From: wish.PerNode.From},
		MapBy:   place.MapBy, BindTo: place.BindTo, RankBy: place.RankBy, NUMABinding: place.NUMABinding,
		CPUsPerRank: place.CPUsPerRank, GPUsPerRank: place.GPUsPerRank, GPUs: place.GPUs,
		Visible: visibility(wish),
	}, []placement.Machine{m})
}

// visibility is what hides GPUs from ranks here; of another machine it hides none.
func visibility(wish dialect.TopoWish) placement.Visibility {
	if wish.Example != "" {
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
