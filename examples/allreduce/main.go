// Command allreduce shows what an all-reduce does: every rank has 1s, and then everybody has their sum, the number of
// ranks.
//
//	gorun -n 2 ./examples/allreduce
//	gorun -n 4 ./examples/allreduce --op max
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"gorun/comm"
)

// elements is the length of each rank's tensor.
const elements = 4

// reductions are the five that torch.distributed has, too.
var reductions = map[string]comm.Op{
	"sum": comm.Sum, "prod": comm.Prod, "max": comm.Max, "min": comm.Min,
	"avg": comm.Avg,
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("allreduce: ")
	name := flag.String("op", "sum", "sum, prod, max, min or avg; for all but sum rank r has 1 + r")
	flag.Parse()
	op, known := reductions[*name]
	if !known {
		log.Fatalf("--op %s: take one of sum, prod, max, min, avg", *name)
	}
	if err := run(context.Background(), op); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, op comm.Op) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()

	tensor := make([]float32, elements)
	for i := range tensor {
		tensor[i] = 1
		if op != comm.Sum {
			tensor[i] += float32(g.Rank())
		}
	}
	if err := show(ctx, g, fmt.Sprintf("before all-reduce (%v)", op), tensor); err != nil {
		return err
	}
	if err := comm.AllReduce(ctx, g, tensor, tensor, op); err != nil { // in place
		return err
	}
	return show(ctx, g, "after all-reduce", tensor)
}

// show has rank 0 print every rank's tensor in one box, so that ranks don't print at once.
func show(ctx context.Context, g *comm.Group, title string, tensor []float32) error {
	all := make([]float32, g.Size()*len(tensor)) // only rank 0's is filled
	if err := comm.Gather(ctx, g, tensor, all, 0); err != nil || g.Rank() != 0 {
		return err
	}
	line := "+---------+" + strings.Repeat("-", 5*len(tensor)+1) + "+"
	fmt.Printf("%s\n%s\n", title, line)
	for rank := range g.Size() {
		fmt.Printf("| rank %-2d |", rank)
		for _, value := range all[rank*len(tensor) : (rank+1)*len(tensor)] {
			fmt.Printf(" %4g", value)
		}
		fmt.Println(" |")
	}
	fmt.Println(line)
	return nil
}
