// Command hello is the smallest distributed Go program: its ranks compute parts of π, meet in the store and add the
// parts up.
//
//	gorun -n 4 ./examples/hello
//	gorun -n 4 ./examples/hello --comm
//
// It needs no address, port or rank from its user: [env.Self] reads them from what the launcher put into the
// environment (gorun or torchrun), and the store is where the launcher says. Every rank publishes its part together
// with who it is, reads all the others', and so each one knows the sum. With --comm a group of package comm does it
// instead (see comm.go): two calls instead of keys in a store.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"strings"
	"time"

	"gorun/env"
	"gorun/rendezvous/tcpstore"
)

// strips is into how many pieces all ranks together cut the unit interval.
const strips = 4_000_000

// patience is how long ranks wait for each other: one that never comes must not keep the others for ever.
const patience = 60 * time.Second

// part is what a rank publishes.
type part struct {
	Host  string
	PID   int
	Value float64
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("hello: ")
	group := flag.Bool("comm", false, "add the parts up by package comm, which needs cgo, instead of the store")
	flag.Parse()
	run := byStore
	if *group {
		run = byGroup
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func byStore(ctx context.Context) error {
	self, err := env.Self()
	if err != nil {
		return err
	}
	store, err := tcpstore.Dial(ctx, self.Store)
	if err != nil {
		return err
	}
	defer store.Close()

	host, err := os.Hostname()
	if err != nil {
		return err
	}
	mine := part{Host: host, PID: os.Getpid(), Value: integrate(self.Rank, self.WorldSize)}
	parts, err := exchange(ctx, store, self, mine)
	if err != nil {
		return err
	}
	fmt.Printf("rank %d of %d is process %d on %s: its part is %.9f\n", self.Rank, self.WorldSize, mine.PID, mine.Host,
		mine.Value)
	if self.Rank == 0 {
		return conclude(parts)
	}
	return nil
}

// integrate returns a rank's share of the integral of 4/(1+x²) over the unit interval, which is π.
func integrate(rank, size int) float64 {
	const width = 1.0 / strips
	sum := 0.0
	for strip := rank; strip < strips; strip += size {
		x := (float64(strip) + 0.5) * width
		sum += 4 / (1 + x*x)
	}
	return sum * width
}

// exchange publishes this rank's part and returns those of all ranks, in their order.
func exchange(ctx context.Context, store *tcpstore.Client, self env.Rank, mine part) ([]part, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	keys := make([]string, self.WorldSize)
	for rank := range keys {
		keys[rank] = fmt.Sprintf("hello/%d", rank)
	}
	if err := store.Set(ctx, keys[self.Rank], text); err != nil {
		return nil, fmt.Errorf("publish part %d: %w", self.Rank, err)
	}
	values, err := store.MultiGet(ctx, keys...) // waits until every rank has published
	if err != nil {
		return nil, fmt.Errorf("wait for the other ranks: %w", err)
	}
	parts := make([]part, len(values))
	for rank, value := range values {
		if err := json.Unmarshal(value, &parts[rank]); err != nil {
			return nil, fmt.Errorf("part of rank %d: %w", rank, err)
		}
	}
	return parts, nil
}

// conclude adds the parts up and says who took part.
func conclude(parts []part) error {
	sum := 0.0
	processes := make([]string, len(parts))
	for rank, p := range parts {
		sum += p.Value
		processes[rank] = fmt.Sprintf("%s:%d", p.Host, p.PID)
	}
	if math.Abs(sum-math.Pi) > 1e-9 {
		return fmt.Errorf("the parts add up to %v, which is not π", sum)
	}
	fmt.Printf("all ranks met: %s found π = %.9f\n", strings.Join(processes, " "), sum)
	return nil
}
