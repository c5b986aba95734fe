package bench

import (
	"fmt"
	"math"
)

// Model predicts the time of an operation from two parameters, which are found by measuring its smallest and its
// largest size.
type Model struct {
	Alpha   float64  `json:"alpha_us"`         // per message
	Beta    float64  `json:"beta_us_per_byte"` // per byte
	Formula string   `json:"formula"`          // in n, S, α, β
	Source  string   `json:"source"`           // of the formula
	From    [2]int64 `json:"from_bytes"`       // the two sizes

	messages, moved float64 // messages one after the other, and the part of S that each rank moves
	hops            float64 // of a tree there and back, for an all-reduce; 0: not compared
}

// fit finds the parameters of an operation's formula from two sizes and their times in microseconds.
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

// Microseconds is the predicted time of so many bytes; nil predicts nothing, which is 0.
func (m *Model) Microseconds(bytes int64) float64 {
	if m == nil {
		return 0
	}
	return m.messages*m.Alpha + m.moved*float64(bytes)*m.Beta
}

// Bytes is how many can be had in a time.
func (m *Model) Bytes(microseconds float64) int64 {
	return int64(math.Max(0, (microseconds-m.messages*m.Alpha)/(m.moved*m.Beta)))
}

// String is the model with its numbers.
func (m *Model) String() string {
	return fmt.Sprintf("T = %s with α = %s us and 1/β = %s GB/s, from this run's %s and %s (%s)",
		m.Formula, number(m.Alpha), number(1e-3/m.Beta), bytesText(m.From[0]), bytesText(m.From[1]), m.Source)
}

// Alternative says what the two parameters mean for another algorithm, at both ends; "" where none is known.
func (m *Model) Alternative() string {
	if m.hops == 0 {
		return ""
	}
	at := func(bytes int64) string { return number(m.hops * (m.Alpha + float64(bytes)*m.Beta)) }
	return fmt.Sprintf(
		"by the same α and β a ring needs %s and %s us, a tree, 2⌈log2 n⌉·(α + S·β), %s and %s us",
		number(m.Microseconds(m.From[0])), number(m.Microseconds(m.From[1])), at(m.From[0]), at(m.From[1]))
}

// tooMuch is the part of a step that communication may take before there is a warning: beyond it, even a program that
// hides most of it behind its computing gains less from further ranks than from sending less.
const tooMuch = 0.30

// Share says what one call does to a step of a program that computes and then communicates.
type Share struct {
	Compute       float64 `json:"compute_us"`
	Bytes         int64   `json:"bytes"`
	Communication float64 `json:"communication_us"`
	Measured      bool    `json:"measured"` // or predicted by the model
	Part          float64 `json:"part"`     // of the step that communication takes
	Warning       bool    `json:"warning"`  // it is more than 0.30
	// Most is the largest call, in bytes, that stays below it by the model; 0 is not known.
	Most int64 `json:"most_bytes,omitempty"`
}

// share says it of a call of so many bytes, by the row that measured it or else by the model.
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

// noModel says why there will be nothing to predict with; "": there is, or nothing is to be predicted.
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

// farBeyond is how many times the largest size a predicted one may be without a remark, poorFit how far the times of
// sizes next to it may be from the model's.
const (
	farBeyond = 8
	poorFit   = 1.5
)

// prediction says how long a call of so many bytes takes, and how far that is to be trusted.
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

// fitAt is the time/model that is the farthest from 1 of the sizes next to so many bytes: one on each side, or the two
// at the end beyond which they lie. 0 is not known.
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

// timeOf is how long a call of so many bytes takes: measured, in the faster place, or predicted.
func (r *Report) timeOf(bytes int64) (microseconds float64, measured bool) {
	for _, row := range r.Rows {
		if row.Bytes == bytes {
			return row.best().Median, true
		}
	}
	return r.Model.Microseconds(bytes), false
}

// String is the share as a sentence or two.
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
