package draw

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"gorun/placement"
)

// format is the version of the JSON schema. It increases if a name is removed or changes its meaning,
// but not for a new name.
const format = 1

// data is the schema of JSON.
type data struct {
	Format  int               `json:"format"`
	Machine placement.Machine `json:"machine"`
	// Paths has the path classes between all pairs of GPUs and NICs in the matrix.
	Paths []pathData `json:"paths,omitempty"`
	Ranks []rankData `json:"ranks,omitempty"`
	// Notes has placement notes.
	Notes []string `json:"notes,omitempty"`
	// Impact is the prediction, if requested.
	Impact *Impact `json:"impact,omitempty"`
}

// pathData is a pair of devices. PCI addresses identify both, as in Machine.
type pathData struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Class string `json:"class"`
}

// rankData is the placement of a rank. Memories are NUMA nodes in the format of CPUs, and GPUs are PCI
// addresses.
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

// JSON formats a machine as one indented object. The object includes the path classes between GPUs and
// NICs, the placement of ranks, its notes, and the prediction (nil if there is none). Names are those
// of the machine, with terminal control characters escaped.
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

// paths returns each pair once.
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

// escaped writes a \u escape for each character that printable.Text rejects and encoding/json does not
// escape. Such characters occur only in strings.
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
