// Command trainer teaches a small network to read handwritten digits, on as many ranks as there are.
//
//	gorun -n 4 ./examples/trainer
//
// It is data-parallel training as PyTorch's DistributedDataParallel does it, in plain Go: every rank has the whole
// network, computes the gradients of its slice of each batch, and a [comm.Bucketer] adds them up over all ranks while
// the next layer's are computed. At the end rank 0 trains alone with the same batches and compares: comm adds in rank
// order, so every weight has the same bits.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"gorun/comm"
)

// patience is how long ranks wait for each other, in one call.
const patience = time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("trainer: ")
	var s settings
	flag.IntVar(&s.epochs, "epochs", 15, "how often to go through the images")
	flag.IntVar(&s.batch, "batch", 64, "images in a step, of all ranks together")
	flag.IntVar(&s.hidden, "hidden", 128, "units between the pixels and the ten answers: more make more work")
	flag.Float64Var(&s.rate, "rate", 0.1, "learning rate")
	flag.Uint64Var(&s.seed, "seed", 2, "for the split, the first weights and the order of the images")
	check := flag.Bool("check", true, "train once more on rank 0 alone, and compare")
	flag.Parse()
	if s.epochs < 1 || s.batch < 1 || s.hidden < 1 {
		log.Fatalf("-epochs %d, -batch %d and -hidden %d: take 1 or more of each", s.epochs, s.batch, s.hidden)
	}
	if err := run(context.Background(), s, *check); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings, check bool) error {
	g, err := comm.Join(ctx, comm.WithTimeout(patience))
	if err != nil {
		return err
	}
	defer g.Close()
	training, test, err := digits(s.seed)
	if err != nil {
		return err
	}
	m := newModel(s)
	if err := introduce(ctx, g, m, len(training)); err != nil {
		return err
	}
	took, err := train(ctx, g, m, training, test)
	if err != nil {
		return err
	}
	if err := agree(ctx, g, m); err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Printf("\n%s\n\n", show(m, test[:5]))
		if check {
			return compare(m, training, g.Size(), took)
		}
	}
	return nil
}

// introduce has rank 0 print who the ranks are.
func introduce(ctx context.Context, g *comm.Group, m *model, images int) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	const width = 80
	all := make([]byte, width*g.Size())
	mine := make([]byte, width)
	copy(mine, fmt.Sprintf("rank %d is process %d on %s", g.Rank(), os.Getpid(), host))
	if err := comm.Gather(ctx, g, mine, all, 0); err != nil || g.Rank() != 0 {
		return err
	}
	for rank := range g.Size() {
		fmt.Printf("%s\n", bytes.TrimRight(all[rank*width:(rank+1)*width], "\x00"))
	}
	fmt.Printf("%d images to learn from, %d held out; %d weights; batches of %d in %d slices (backend %s)\n\n",
		images, heldOut, m.weights.count(), m.batch, g.Size(), g.Backend())
	return nil
}

// train runs all epochs; rank 0 reports each. It returns the time without that of the tests.
func train(ctx context.Context, g *comm.Group, m *model, training, test []image) (all time.Duration, err error) {
	b, err := comm.NewBucketer(ctx, g, comm.Sum, bucketBytes, m.gradients.list()...)
	if err != nil {
		return 0, err
	}
	for epoch := range m.epochs {
		begun := time.Now()
		loss, err := m.together(ctx, g, b, training, epoch)
		if err != nil {
			return 0, err
		}
		took := time.Since(begun)
		all += took
		sums := []float64{loss, m.right(g, test)}
		if err := comm.AllReduce(ctx, g, sums, sums, comm.Sum); err != nil {
			return 0, err
		}
		if g.Rank() == 0 {
			fmt.Printf("epoch %2d   loss %.4f   accuracy %5.2f %%   %6.0f images/s\n", epoch+1, sums[0]/float64(len(training)),
				100*sums[1]/float64(len(test)), float64(len(training))/took.Seconds())
		}
	}
	return all, b.Close(ctx)
}

// agree makes sure that all ranks ended with the same network.
func agree(ctx context.Context, g *comm.Group, m *model) error {
	prints := make([]uint32, g.Size())
	if err := comm.AllGather(ctx, g, []uint32{m.fingerprint()}, prints); err != nil {
		return err
	}
	for rank, print := range prints {
		if print != prints[0] {
			return fmt.Errorf("rank %d ended with other weights than rank 0 (%08x, %08x): start all ranks from the same "+
				"binary and on the same kind of CPU",
				rank, print, prints[0])
		}
	}
	return nil
}

// show draws images with what the network says.
func show(m *model, images []image) string {
	guesses := make([]int, len(images))
	for i := range images {
		guesses[i] = m.weights.guess(&images[i])
	}
	return draw(images, guesses)
}

// compare trains without the others, who took so long, and looks for a weight that differs.
func compare(m *model, training []image, slices int, together time.Duration) error {
	single := newModel(m.settings)
	begun := time.Now()
	for epoch := range m.epochs {
		single.alone(training, epoch, slices)
	}
	alone := time.Since(begun)
	same, count := m.sameBits(single), m.weights.count()
	if same != count {
		return errors.Join(fmt.Errorf("only %d of %d weights have the bits that one rank alone gives", same, count),
			errors.New("look for a rank with another CPU or binary: comm itself adds in rank order"))
	}
	rate := func(took time.Duration) float64 { return float64(m.epochs*len(training)) / took.Seconds() }
	gain := alone.Seconds() / together.Seconds()
	fmt.Printf("one rank alone    %6.0f images/s\n%d ranks together  %6.0f images/s, %.1f times as fast\n", rate(alone),
		slices, rate(together), gain)
	if gain < 1 && slices > 1 {
		fmt.Println("Together they are slower: other programs use the CPUs, there are fewer CPUs than ranks, or a step has " +
			"too little\nwork to divide: raise -hidden and -batch.")
	}
	fmt.Printf("all %d weights have the same bits (%08x) together and alone\n", count, m.fingerprint())
	return nil
}
