// Package bench measures the collectives of package comm as nccl-tests measures NCCL's. It runs each size in place and
// out of place, and uses nccl-tests' definitions of bandwidth
// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). For each time it also reports an upper bound
// from the memory bandwidth and the prediction of a model with two parameters.
//
// # Measuring times
//
// A trial is a batch of calls, or one call if that takes longer than batchTime. Before each trial, every rank writes
// its inputs, since pages that were never written all map the kernel's zero page, and waits in a barrier. The trial's
// time is that of the slowest rank, divided by the number of calls. Each size has as many trials as fit into
// Config.PerSize, after warm-up calls. Tables show the median and its spread; files also have the minimum and maximum.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gorun/comm"
	"gorun/comm/internal/backend"
)

// Config configures a measurement. All ranks use the same.
type Config struct {
	Operation string // one of [Operations]
	DType     string // one of [DTypes]
	Op        string // one of [Reductions]; "" is sum
	Backend   string // as in [comm.WithBackend]

	Begin, End int64 // first and largest size in bytes
	Factor     int64 // from one size to the next, at least 2; used if Step is 0
	Step       int64 // bytes from one size to the next; 0: use Factor

	Root    int           // for operations with a root
	Trials  int           // for each size; 0: as many as fit into PerSize, at least fewestTrials
	Warmup  int           // calls before the trials
	PerSize time.Duration // for the trials of one size, in place or out of place

	Check   bool          // compare every element of one more call with the expected result
	Compute time.Duration // computing time of a step with one call of the operation; 0: no share is reported
	Predict int64         // size of that call in bytes; 0: the largest size
	Model   bool          // the table compares times with the model's
	Link    float64       // bandwidth between ranks in bytes/s, for the bound; 0: the memory's copy bandwidth

	JSON, CSV bool   // instead of the table
	SVG       string // file for the chart; "-" is the output, "" means none
	Version   string // gorun's version, for reports
}

// UnsupportedError reports that these ranks cannot run the requested measurement. Only rank 0 returns it.
type UnsupportedError struct{ text string }

func (e *UnsupportedError) Error() string { return e.text }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{fmt.Sprintf(format, args...)}
}

var (
	// ErrJoin reports that the ranks did not connect, or that the back end is missing.
	ErrJoin = errors.New("join")
	// ErrWrong reports that the check found wrong elements.
	ErrWrong = errors.New("wrong results")
)

// afterAll is an error of rank 0 after the last call. It does not affect the other ranks.
type afterAll struct{ error }

func (e afterAll) Unwrap() error { return e.error }

// Run is one rank of a measurement. It joins the group that the environment describes ([comm.Join]), measures,
// and on rank 0 writes the results.
func Run(ctx context.Context, c Config, host Host, out io.Writer) error {
	if !Linked { // a constant: the linker omits the rest
		return fmt.Errorf("%w: %w", ErrJoin, backend.ErrNoCgo)
	}
	g, err := comm.Join(ctx, comm.WithBackend(c.Backend))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrJoin, err)
	}
	defer g.Close()
	return settle(runIn(ctx, g, c, host, out), g.Rank(), func() error { return comm.Barrier(ctx, g) })
}

// settle ends a rank. After the last call it waits for the other ranks, even if rank 0 fails afterwards. A
// rank that leaves earlier would break the others' pending operations.
func settle(err error, rank int, wait func() error) error {
	var unwilling *UnsupportedError
	switch {
	case err == nil || errors.As(err, new(afterAll)):
		if waited := wait(); err == nil {
			err = waited
		}
	case rank != 0 && errors.As(err, &unwilling):
		return nil // only rank 0 reports it and fails
	}
	return err
}

// runIn measures in an existing group.
func runIn(ctx context.Context, g *comm.Group, c Config, host Host, out io.Writer) error {
	b, err := newBench(ctx, g, c, host)
	if err != nil {
		return err
	}
	w := writer(discard{})
	if g.Rank() == 0 {
		w = newWriter(c, host, out)
	}
	return b.measure(ctx, w)
}

// bench is a measurement in progress.
type bench struct {
	Config
	group     *comm.Group
	operation *operation
	element   *element
	sizes     []size
	vectors   vectors
	report    Report
	host      Host
	secret    [32]byte // of the TCP streams between hosts
}

// newBench checks the configuration against the group, and allocates the buffers.
func newBench(ctx context.Context, g *comm.Group, c Config, host Host) (*bench, error) {
	b := &bench{
		Config: c, group: g, host: host, operation: find(operations, c.Operation), element: find(elements, c.DType),
	}
	switch {
	case b.operation == nil:
		return nil, unsupported("%q is no operation: take one of %v", c.Operation, Operations())
	case b.element == nil:
		return nil, unsupported("%q is no element type: take one of %v", c.DType, DTypes())
	case b.operation.rooted && c.Root >= g.Size():
		return nil, unsupported("--root %d: there are ranks 0 to %d", c.Root, g.Size()-1)
	case c.Operation == "p2p" && g.Size() < 2:
		return nil, unsupported("p2p needs two ranks, there is one: add -np 2")
	}
	b.sizes = b.operation.sizes(c, g.Size(), b.element.size)
	if text := c.noModel(b.sizes, g.Size()); text != "" {
		return nil, unsupported("%s", text)
	}
	if err := b.fits(ctx); err != nil {
		return nil, err
	}
	longest := 0
	if len(b.sizes) > 0 {
		longest = int(b.sizes[len(b.sizes)-1].bytes) / b.element.size
	}
	var err error
	if b.vectors, err = b.element.vectors(g, c, longest); err != nil {
		return nil, err
	}
	b.report = newReport(c, g, b.operation)
	b.report.Rounded = b.operation.rounded(c, g.Size(), b.element)
	return b, nil
}

// measure measures both ends of the range for the model, then every size. It writes each row immediately.
func (b *bench) measure(ctx context.Context, w writer) error {
	var err error
	if b.report.Model, err = b.calibrate(ctx); err != nil {
		return err
	}
	if err := w.begin(&b.report); err != nil {
		return err
	}
	for _, s := range b.sizes {
		row, err := b.row(ctx, s)
		if err != nil {
			return err
		}
		b.report.Rows = append(b.report.Rows, row)
		if err := w.row(&b.report, row); err != nil {
			return err
		}
	}
	if b.operation.name == "p2p" {
		if b.report.Paths, err = b.paths(ctx); err != nil {
			return err
		}
	}
	b.report.conclude(b.Config)
	if err := w.end(&b.report); err != nil {
		return afterAll{err}
	}
	if b.group.Rank() == 0 && b.report.Wrong > 0 {
		return afterAll{fmt.Errorf("%w: %d elements", ErrWrong, b.report.Wrong)}
	}
	return nil
}

// row measures one size in place and out of place.
func (b *bench) row(ctx context.Context, s size) (Row, error) {
	row := Row{Bytes: s.bytes, Count: s.count, Predicted: b.report.Model.Microseconds(s.bytes)}
	var err error
	if row.Bound, err = b.bound(ctx, s); err == nil && b.operation.outOfPlace {
		row.OutOfPlace, err = b.place(ctx, s, false)
	}
	if err == nil && b.operation.inPlace {
		row.InPlace, err = b.place(ctx, s, true)
	}
	return row, err
}

// place measures one size in one place.
func (b *bench) place(ctx context.Context, s size, inPlace bool) (*Place, error) {
	b.vectors.prepare(s.count, inPlace)
	t, err := b.trials(ctx, b.Trials)
	if err != nil {
		return nil, err
	}
	p := &Place{Times: t}
	if t.Median > 0 {
		p.AlgBW = float64(s.bytes) / t.Median / 1e3 // bytes/µs are MB/s
		p.BusBW = p.AlgBW * b.operation.factor(float64(b.group.Size()))
	}
	if !b.Check {
		return p, nil
	}
	wrong, err := b.check(ctx)
	p.Wrong = &wrong
	return p, err
}

// check makes one more call and counts the wrong elements on all ranks.
func (b *bench) check(ctx context.Context) (int64, error) {
	if err := b.vectors.spoil(); err != nil {
		return 0, err
	}
	if _, err := b.trial(ctx, 1); err != nil {
		return 0, err
	}
	mine, err := b.vectors.wrong()
	if err != nil {
		return 0, err
	}
	wrong := []int64{mine}
	err = comm.AllReduce(ctx, b.group, wrong, wrong, comm.Sum)
	return wrong[0], err
}
