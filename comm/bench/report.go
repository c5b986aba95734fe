package bench

import (
	"cmp"

	"gorun/comm"
)

// Report is the result of a measurement. Times are in microseconds, bandwidths in 1e9 bytes/s.
type Report struct {
	Version   string `json:"-"`                       // of gorun
	Operation string `json:"operation"`               // such as "allreduce"
	Backend   string `json:"backend"`                 // the library that moved the data: "cpu" or "nccl"
	Ranks     int    `json:"world_size"`              // number of ranks
	DType     string `json:"dtype"`                   // type of the elements, such as "float32"
	Op        string `json:"reduction,omitempty"`     // such as "sum"; absent for operations without one
	Root      int    `json:"root"`                    // -1: no root
	Rounded   string `json:"rounded_sizes,omitempty"` // the sizes that were rounded, "" if none
	Rows      []Row  `json:"rows"`                    // by size; [] for p2p
	// AverageBusBW is the average over all rows and places, as in nccl-tests.
	AverageBusBW float64 `json:"average_busbw_gigabytes_per_second"`
	Checked      bool    `json:"checked"`         // whether results were compared with the right ones
	Wrong        int64   `json:"wrong_elements"`  // wrong elements in all rows
	Model        *Model  `json:"model,omitempty"` // nil with a single size or rank
	Share        *Share  `json:"share,omitempty"` // part of a training step that one call takes; absent if not requested
	Paths        []Path  `json:"paths,omitempty"` // for p2p
}

// Row has the results of one size.
type Row struct {
	Bytes      int64   `json:"bytes"`                                      // size of the whole vector, as in nccl-tests
	Count      int     `json:"element_count"`                              // elements that a rank passes, or of its part
	OutOfPlace *Place  `json:"out_of_place,omitempty"`                     // with separate buffers; absent if unmeasured
	InPlace    *Place  `json:"in_place,omitempty"`                         // with one buffer; absent if unmeasured
	Bound      float64 `json:"bound_busbw_gigabytes_per_second,omitempty"` // upper bound of busbw; 0 if unknown
	Predicted  float64 `json:"predicted_microseconds,omitempty"`           // by the model; 0 without a model
}

// Place has the results of one size, in place or out of place.
type Place struct {
	Times
	AlgBW float64 `json:"algbw_gigabytes_per_second"` // size divided by time, in 1e9 bytes/s
	BusBW float64 `json:"busbw_gigabytes_per_second"` // algbw times the operation's bus factor, as in nccl-tests
	Wrong *int64  `json:"wrong_elements,omitempty"`   // wrong elements; nil if not checked
}

// best returns the faster place.
func (r Row) best() *Place {
	if r.OutOfPlace == nil || r.InPlace != nil && r.InPlace.Median < r.OutOfPlace.Median {
		return r.InPlace
	}
	return r.OutOfPlace
}

// first returns the place that the model is based on.
func (r Row) first() *Place {
	if r.OutOfPlace != nil {
		return r.OutOfPlace
	}
	return r.InPlace
}

// places returns the places that were measured.
func (r Row) places() (list []*Place) {
	for _, p := range []*Place{r.OutOfPlace, r.InPlace} {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Ratio is the measured time divided by the predicted one; 0 without a prediction.
func (r Row) Ratio() float64 {
	if r.Predicted == 0 {
		return 0
	}
	return r.first().Median / r.Predicted
}

func newReport(c Config, g *comm.Group, o *operation) Report {
	r := Report{
		Version: c.Version, Operation: c.Operation, Backend: g.Backend(), Ranks: g.Size(), DType: c.DType,
		Root: -1, Rows: []Row{}, Checked: c.Check,
	}
	if o.reduces {
		r.Op = cmp.Or(c.Op, "sum")
	}
	if o.rooted {
		r.Root = c.Root
	}
	return r
}

// conclude computes the fields that depend on all rows.
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
