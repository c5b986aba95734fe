package draw

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"gorun/placement"
)

// format is the number of the JSON's shape. It grows when a name goes or changes
// its meaning; new names do not change it.
const format = 1

// data is what JSON writes.
type data struct {
	Format  int               `json:"format"`
	Machine placement.Machine `json:"machine"`
	// Paths are the classes between any two of the GPUs and NICs of the matrix.
	Paths []pathData `json:"paths,omitempty"`
	Ranks []rankData `json:"ranks,omitempty"`
	// Notes are remarks on where the ranks sit.
	Notes []string `json:"notes,omitempty"`
	// Impact is the prediction, where one was asked for.
	Impact *Impact `json:"impact,omitempty"`
}

// pathData is a pair of devices. Both are named by PCI address, as in Machine.
type pathData struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Class string `json:"class"`
}

// rankData is where a rank sits. Memories are NUMA nodes, written as CPUs are, and
// GPUs PCI addresses.
type rankData struct {
	Rank     int              `json:"rank"`
	CPUs     placement.CPUSet `json:"cpus,omitzero"`
	Memories placement.CPUSet `json:"memories,omitzero"`
	GPUs     []string         `json:"gpus,omitempty"`
	Why      string           `json:"why,omitempty"`
}

func rankOfSeat(s Seat) rankData {
	d := rankData{Rank: s.Rank, CPUs: s.CPUs, Memories: s.Memories, Why: s.Why}
	for _, g := range s.GPUs {
		d.GPUs = append(d.GPUs, g.PCI)
	}
	return d
}

// JSON writes a machine, the path classes between its GPUs and NICs, who sits
// where, remarks on that, and the prediction (nil: none) as one indented object. Names stay as the
// machine tells them; what a terminal would obey in them is escaped.
func JSON(m placement.Machine, seats []Seat, notes []string, impact *Impact) (string, error) {
	d := data{Format: format, Machine: m, Notes: notes, Impact: impact}
	for _, s := range seats {
		d.Ranks = append(d.Ranks, rankOfSeat(s))
	}
	if m.Topology != nil {
		d.Paths = paths(m)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return "", fmt.Errorf("write the machine as JSON: %w", err)
	}
	return escaped(b.String()), nil
}

// paths are the pairs, each once.
func paths(m placement.Machine) []pathData {
	t := newTable(m)
	all := append(t.gpus, t.nics...)
	var pairs []pathData
	for i, from := range all {
		for _, to := range all[i+1:] {
			pairs = append(pairs, pathData{from.bus.Address, to.bus.Address, between(from, to).String()})
		}
	}
	return pairs
}

// escaped writes as JSON's \u what printable.Text would not let through and
// encoding/json does. Such characters stand in texts only.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= utf8.RuneSelf && clean(string(r)) != string(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
