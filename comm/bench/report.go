package bench

import (
	"cmp"

	"gorun/comm"
)

// Report is what a measurement found. Times are in microseconds, bandwidths in 1e9 bytes/s.
type Report struct {
	Format    int    `json:"format"`
	Version   string `json:"version"` // of gorun
	Operation string `json:"operation"`
	Backend   string `json:"backend"`
	Ranks     int    `json:"ranks"`
	DType     string `json:"dtype"`
	Op        string `json:"op,omitempty"`
	Root      int    `json:"root"`              // -1: has none
	Rounded   string `json:"rounded,omitempty"` // which sizes are measured as others; "": none
	Rows      []Row  `json:"rows"`
	// AverageBusBW is that of all rows and places, as nccl-tests has it.
	AverageBusBW float64 `json:"average_busbw_GBps"`
	Checked      bool    `json:"checked"`
	Wrong        int64   `json:"wrong"`           // elements, of all rows
	Model        *Model  `json:"model,omitempty"` // nil: a single size, or a single rank
	Share        *Share  `json:"share,omitempty"`
	Paths        []Path  `json:"paths,omitempty"` // of p2p
}

// Row is one size.
type Row struct {
	Bytes      int64   `json:"bytes"` // of the whole vector, as nccl-tests counts
	Count      int     `json:"count"` // elements that each rank gives to the call, or of one rank's part
	OutOfPlace *Place  `json:"out_of_place,omitempty"`
	InPlace    *Place  `json:"in_place,omitempty"`
	Bound      float64 `json:"bound_busbw_GBps,omitempty"` // what busbw cannot exceed; 0 is not known
	Predicted  float64 `json:"predicted_us,omitempty"`     // by the model; 0 without one
}

// Place is one size in place or out of it.
type Place struct {
	Times
	AlgBW float64 `json:"algbw_GBps"`
	BusBW float64 `json:"busbw_GBps"`
	Wrong *int64  `json:"wrong,omitempty"` // elements; nil: not checked
}

// best is the faster place.
func (r Row) best() *Place {
	if r.OutOfPlace == nil || r.InPlace != nil && r.InPlace.Median < r.OutOfPlace.Median {
		return r.InPlace
	}
	return r.OutOfPlace
}

// first is the place that the model was made of.
func (r Row) first() *Place {
	if r.OutOfPlace != nil {
		return r.OutOfPlace
	}
	return r.InPlace
}

// places are those that were measured.
func (r Row) places() (list []*Place) {
	for _, p := range []*Place{r.OutOfPlace, r.InPlace} {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Ratio is the measured time over the predicted one; 0 without a prediction.
func (r Row) Ratio() float64 {
	if r.Predicted == 0 {
		return 0
	}
	return r.first().Median / r.Predicted
}

func newReport(c Config, g *comm.Group, o *operation) Report {
	r := Report{
		Format: 1, Version: c.Version, Operation: c.Operation, Backend: g.Backend(), Ranks: g.Size(), DType: c.DType,
		Root: -1, Checked: c.Check,
	}
	if o.reduces {
		r.Op = cmp.Or(c.Op, "sum")
	}
	if o.rooted {
		r.Root = c.Root
	}
	return r
}

// conclude fills in what follows from all rows.
func (r *Report) conclude(c Config) {
	sum, n := 0.0, 0
	for _, row := range r.Rows {
		for _, p := range row.places() {
			sum, n = sum+p.BusBW, n+1
			if p.Wrong != nil {
				r.Wrong += *p.Wrong
			}
		}
	}
	if n > 0 {
		r.AverageBusBW = sum / float64(n)
	}
	if c.Compute > 0 {
		r.Share = r.share(c)
	}
}
