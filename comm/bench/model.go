package bench

import (
	"fmt"
	"math"
)

// Model predicts the time of an operation from two parameters. Measurements of its smallest and largest sizes
// determine them.
type Model struct {
	Alpha   float64  `json:"alpha_microseconds"`         // per message
	Beta    float64  `json:"beta_microseconds_per_byte"` // per byte
	Formula string   `json:"formula"`                    // in n, S, α, β
	Source  string   `json:"source"`                     // of the formula
	From    [2]int64 `json:"from_bytes"`                 // the two sizes

	messages, moved float64 // sequential messages, and the part of S that each rank moves
	hops            float64 // sequential messages of a tree up and down, for an all-reduce; 0: no comparison
}

// fit computes the parameters of an operation's formula from two sizes and their times in microseconds.
func fit(o *operation, ranks int, small int64, smallTime float64, large int64, largeTime float64) *Model {
	n := float64(ranks)
	m := &Model{
		Formula: o.formula, Source: o.source, From: [2]int64{small, large}, messages: o.messages(n),
		moved: o.moved(n),
	}
	if o.name == "allreduce" {
		m.hops = 2 * tree(n)
	}
	m.Beta = math.Max(largeTime-smallTime, 0) / (m.moved * float64(large-small))
	m.Alpha = math.Max(smallTime-m.moved*float64(small)*m.Beta, 0) / m.messages
	return m
}

// Microseconds returns the predicted time for a size; it is 0 for a nil Model.
func (m *Model) Microseconds(bytes int64) float64 {
	if m == nil {
		return 0
	}
	return m.messages*m.Alpha + m.moved*float64(bytes)*m.Beta
}

// Bytes returns the size that fits into a time.
func (m *Model) Bytes(microseconds float64) int64 {
	return int64(math.Max(0, (microseconds-m.messages*m.Alpha)/(m.moved*m.Beta)))
}

// String formats the model with its parameters.
func (m *Model) String() string {
	return fmt.Sprintf("T = %s with α = %s us and 1/β = %s GB/s, from this run's %s and %s (%s)",
		m.Formula, number(m.Alpha), number(1e-3/m.Beta), bytesText(m.From[0]), bytesText(m.From[1]), m.Source)
}

// Alternative compares the model with another algorithm at both ends of the range; it is "" if none is known.
func (m *Model) Alternative() string {
	if m.hops == 0 {
		return ""
	}
	at := func(bytes int64) string { return number(m.hops * (m.Alpha + float64(bytes)*m.Beta)) }
	return fmt.Sprintf(
		"by the same α and β a ring needs %s and %s us, a tree, 2⌈log2 n⌉·(α + S·β), %s and %s us",
		number(m.Microseconds(m.From[0])), number(m.Microseconds(m.From[1])), at(m.From[0]), at(m.From[1]))
}

// tooMuch is the largest part of a step that communication may take without a warning. Beyond it, sending less
// helps more than adding ranks, even for programs that overlap most communication with computing.
const tooMuch = 0.30

// Share is the part of a step that one call takes, in a program that computes and then communicates.
type Share struct {
	Compute       float64 `json:"compute_microseconds"`       // computation of one step
	Bytes         int64   `json:"bytes"`                      // size of the call in a step
	Communication float64 `json:"communication_microseconds"` // time of that call
	Measured      bool    `json:"measured"`                   // else predicted by the model
	Part          float64 `json:"communication_fraction"`     // communication as a part of the step
	Warning       bool    `json:"warning"`                    // Part is more than 0.30
	// Most is the size in bytes of the largest call below that limit, predicted by the model; 0 means unknown.
	Most int64 `json:"largest_bytes,omitempty"`
}

// share returns the share of a call. Its time is measured if a row has its size, else predicted by the model.
func (r *Report) share(c Config) *Share {
	s := &Share{Compute: float64(c.Compute.Nanoseconds()) / 1e3, Bytes: c.Predict}
	if last := len(r.Rows) - 1; s.Bytes == 0 && last >= 0 {
		s.Bytes = r.Rows[last].Bytes
	}
	s.Communication, s.Measured = r.timeOf(s.Bytes)
	s.Part = s.Communication / (s.Compute + s.Communication)
	s.Warning = s.Part > tooMuch
	if r.Model != nil && r.Model.Beta > 0 {
		s.Most = r.Model.Bytes(s.Compute * tooMuch / (1 - tooMuch))
	}
	return s
}

// noModel explains why there will be no model to predict with. It is "" if there will be one, or no prediction
// is needed.
func (c Config) noModel(sizes []size, ranks int) string {
	switch {
	case c.Predict == 0 || len(sizes) == 1 && sizes[0].bytes == c.Predict:
		return ""
	case ranks < 2:
		return "--predict: one rank sends nothing of which a model could be made: add -np 2 or more"
	case len(sizes) < 2:
		return fmt.Sprintf(
			"--predict: one size, %d bytes, makes no model: give a smallest and a largest, -b and -e, that are apart",
			sizes[0].bytes)
	}
	return ""
}

// modelTable compares the times with the model's, unless they are too far apart to say anything.
func (r *Report) modelTable() string {
	if r.Model == nil {
		return comment("model: none without two sizes and two ranks")
	}
	fits, least, most := 0, math.Inf(1), 0.0
	rows := fmt.Sprintf("# %12s %10s %10s %11s\n", "size (B)", "time (us)", "model (us)", "time/model")
	for _, row := range r.Rows {
		ratio := row.Ratio()
		least, most = math.Min(least, ratio), math.Max(most, ratio)
		if ratio > 1/poorFit && ratio < poorFit {
			fits++
		}
		rows += fmt.Sprintf("  %12d %10s %10s %11.2f\n", row.Bytes, number(row.best().Median), number(row.Predicted), ratio)
	}
	if 2*fits < len(r.Rows) || r.Model.Alpha == 0 {
		return comment(fmt.Sprintf("model: left out, it fits badly: time/model is from %.2f to %.2f; --json has it", least,
			most))
	}
	text := comment("model: " + r.Model.String())
	if other := r.Model.Alternative(); other != "" {
		text += comment("model: " + other)
	}
	return text + rows
}

// farBeyond is how many times the largest size a predicted one may be without a note. poorFit is how far the
// times of adjacent sizes may be from the model's.
const (
	farBeyond = 8
	poorFit   = 1.5
)

// prediction formats the time of a call of a size, and how reliable it is.
func (r *Report) prediction(bytes int64) string {
	time, measured := r.timeOf(bytes)
	text := fmt.Sprintf("%s takes %s us", bytesText(bytes), number(time))
	if measured {
		return text + " (measured)"
	}
	if fit := r.fitAt(bytes); fit > poorFit || fit > 0 && fit < 1/poorFit {
		text += fmt.Sprintf("; time/model is %.2f at a size next to it: the model fits badly there", fit)
	}
	if largest := r.Rows[len(r.Rows)-1].Bytes; bytes > farBeyond*largest {
		text += fmt.Sprintf("; %.0f times the largest size measured, %s: a guess, for a better one give a larger -e",
			float64(bytes)/float64(largest), bytesText(largest))
	}
	return text
}

// fitAt returns the time/model farthest from 1 among the sizes next to a size: one on each side, or the two
// nearest beyond the range. 0 means unknown.
func (r *Report) fitAt(bytes int64) (worst float64) {
	above := 0
	for above < len(r.Rows) && r.Rows[above].Bytes < bytes {
		above++
	}
	first := min(max(above-1, 0), max(len(r.Rows)-2, 0))
	for _, row := range r.Rows[first:min(first+2, len(r.Rows))] {
		if ratio := row.Ratio(); ratio > 0 && (worst == 0 || math.Abs(math.Log(ratio)) > math.Abs(math.Log(worst))) {
			worst = ratio
		}
	}
	return worst
}

// timeOf returns the time of a call: measured in the faster place, or predicted.
func (r *Report) timeOf(bytes int64) (microseconds float64, measured bool) {
	for _, row := range r.Rows {
		if row.Bytes == bytes {
			return row.best().Median, true
		}
	}
	return r.Model.Microseconds(bytes), false
}

// String describes the share in one or two sentences.
func (s *Share) String() string {
	how := "measured"
	if !s.Measured {
		how = "predicted"
	}
	what := bytesText(s.Bytes)
	if s.Bytes == 0 {
		what = "a barrier"
	}
	text := fmt.Sprintf("a step of %s us of computing and %s us for %s (%s): communication takes %.0f %% of it",
		number(s.Compute), number(s.Communication), what, how, 100*s.Part)
	if !s.Warning {
		return text
	}
	text = "WARNING: " + text + ", more than 30 %: let them overlap (comm.Bucketer), send less, or compute more between"
	if s.Most > 0 {
		text += fmt.Sprintf("; up to %s would stay below", bytesText(s.Most))
	}
	return text
}
