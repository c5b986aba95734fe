// Command broadcast shows what a broadcast does: rank 0 has 42s, and then everybody has.
//
//	gorun -n 4 ./examples/broadcast
package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"gorun/comm"
)

// elements is the length of each rank's tensor.
const elements = 4

func main() {
	log.SetFlags(0)
	log.SetPrefix("broadcast: ")
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	g, err := comm.Join(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer g.Close()

	tensor := make([]float32, elements)
	if g.Rank() == 0 {
		for i := range tensor {
			tensor[i] = 42
		}
	}
	if err := show(ctx, g, "before broadcast from rank 0", tensor); err != nil {
		return err
	}
	if err := comm.Broadcast(ctx, g, tensor, 0); err != nil {
		return err
	}
	return show(ctx, g, "after broadcast", tensor)
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
