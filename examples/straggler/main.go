// Command straggler shows how a monitored barrier names the rank for which all others wait.
//
//	gorun -n 4 ./examples/straggler
//	gorun -n 4 ./examples/straggler --late 2 --delay 5s --timeout 1s
//
// In a plain barrier, or any collective, the others would only stand still. The monitored barrier fails after its
// timeout, on every rank that is there, and says who is not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"gorun/comm"
)

// options say who is late, and how long the others wait.
type options struct {
	late           int
	delay, timeout time.Duration
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("straggler: ")
	var o options
	flag.IntVar(&o.late, "late", -1, "the rank that dawdles; -1: none")
	flag.DurationVar(&o.delay, "delay", 5*time.Second, "for how long it does")
	flag.DurationVar(&o.timeout, "timeout", time.Second, "how long the others wait in the barrier")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()
	if o.late >= g.Size() {
		return fmt.Errorf("--late %d: there are the ranks 0 to %d", o.late, g.Size()-1)
	}
	if err := comm.Barrier(ctx, g); err != nil { // from here on all have the same start
		return err
	}
	if g.Rank() == o.late {
		time.Sleep(o.delay) // a batch that is larger, a disk that is slower
	}
	begun := time.Now()
	err = g.MonitoredBarrier(ctx, o.timeout)
	var late *comm.TimeoutError
	switch {
	case errors.As(err, &late):
		return fmt.Errorf("rank %d: %w\nlook at what it does (SIGQUIT shows a Go program's stacks, gorun --hang-timeout "+
			"10s everybody's), or wait longer: --timeout %v",
			g.Rank(), err, 2*max(o.timeout, o.delay))
	case err != nil:
		return err
	}
	fmt.Printf("rank %d waited %v: all %d ranks came within %v\n", g.Rank(),
		time.Since(begun).Round(10*time.Microsecond), g.Size(), o.timeout)
	return nil
}
