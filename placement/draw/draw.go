// Package draw shows a [placement.Machine], and who sits where on it, to people:
// as a picture and a matrix for a terminal, as JSON and as SVG. Its functions are
// pure: the same machine gives the same bytes.
//
// Names of devices come from files that anybody may have written (a saved tree, a
// strange driver); what a terminal would obey in them is made visible first, by
// [printable.Text].
package draw

import (
	"strings"
	"unicode/utf8"

	"gorun/internal/printable"
	"gorun/placement"
)

// The widths, in columns, to which text can be fitted.
const (
	MinWidth     = 60
	MaxWidth     = 120
	DefaultWidth = 100
)

// Style is how text is to look.
type Style struct {
	// Width is the most columns of a line, bounded by MinWidth and MaxWidth; 0 is
	// DefaultWidth.
	Width int
	// ASCII asks for no other characters, for terminals whose locale has no UTF-8.
	ASCII bool
}

func (s Style) width() int {
	if s.Width == 0 {
		return DefaultWidth
	}
	return min(max(s.Width, MinWidth), MaxWidth)
}

// arrow stands between a rank and its place.
func (s Style) arrow() string {
	if s.ASCII {
		return "->"
	}
	return "→"
}

// ascii has a character of the same width for each that pictures are drawn with.
var ascii = map[rune]rune{
	'╭': '+', '╮': '+', '╰': '+', '╯': '+', '─': '-', '│': '|', '├': '+', '└': '`', '┬': '+',
	'█': '#', '▒': '+', '░': '.', '·': '-', '×': 'x', '…': '~', '→': '>', '÷': '/',
}

// render turns drawn text into what the style asks for.
func (s Style) render(text string) string {
	if !s.ASCII {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch plain, ok := ascii[r]; {
		case ok:
			return plain
		case r < utf8.RuneSelf:
			return r
		}
		return '?'
	}, text)
}

// clean makes a text of the machine fit for a line.
func clean(text string) string { return strings.ReplaceAll(printable.Text(text), "\t", " ") }

// cleaned is a copy of a machine in which every text is fit for a line. Texts that
// were equal stay so.
func cleaned(m placement.Machine) placement.Machine {
	m.GPUs, m.Notes = cleanGPUs(m.GPUs), cleanAll(m.Notes)
	if m.Topology == nil {
		m.Topology = &placement.Topology{}
		return m
	}
	t := *m.Topology
	t.NICs = append([]placement.NIC(nil), t.NICs...)
	for i := range t.NICs {
		n := &t.NICs[i]
		n.Name, n.Kind, n.Interface, n.State = clean(n.Name), placement.NICKind(clean(string(n.Kind))), clean(n.Interface),
			clean(n.State)
		n.Bus = cleanBus(n.Bus)
	}
	m.Topology = &t
	return m
}

func cleanGPUs(gpus []placement.GPU) []placement.GPU {
	gpus = append([]placement.GPU(nil), gpus...)
	for i := range gpus {
		g := &gpus[i]
		g.PCI, g.Vendor, g.UUID, g.Name = clean(g.PCI), placement.Vendor(clean(string(g.Vendor))), clean(g.UUID),
			clean(g.Name)
		g.Bus, g.MIG = cleanBus(g.Bus), cleanAll(g.MIG)
		g.Peers = append([]placement.Peer(nil), g.Peers...)
		for j := range g.Peers {
			g.Peers[j] = placement.Peer{
				PCI:    clean(g.Peers[j].PCI),
				Access: placement.P2PStatus(clean(string(g.Peers[j].Access))),
			}
		}
		g.Links = append([]placement.Link(nil), g.Links...)
		for j := range g.Links {
			g.Links[j].Peer, g.Links[j].Kind = clean(g.Links[j].Peer), clean(g.Links[j].Kind)
		}
	}
	return gpus
}

func cleanBus(b *placement.Bus) *placement.Bus {
	if b == nil {
		return nil
	}
	c := *b
	c.Address, c.Root, c.Bridges = clean(c.Address), clean(c.Root), cleanAll(c.Bridges)
	return &c
}

func cleanAll(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, clean(text))
	}
	return all
}

// columns is the width of a text whose characters take one column each.
func columns(text string) int { return utf8.RuneCountInString(text) }

// clip shortens a text to at most width columns.
func clip(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// pad fills a text with blanks up to width columns.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

// wrap breaks a text at blanks, else behind commas, else anywhere, into lines of
// at most width columns; lines after the first begin with indent blanks.
func wrap(text string, width, indent int) []string {
	var lines []string
	runes := []rune(text)
	for len(runes) > width {
		cut := breakAt(runes, width, indent)
		lines = append(lines, strings.TrimRight(string(runes[:cut]), " "))
		rest := strings.TrimLeft(string(runes[cut:]), " ")
		if rest == "" {
			return lines
		}
		runes = []rune(strings.Repeat(" ", indent) + rest)
	}
	return append(lines, string(runes))
}

// breakAt is where a line that is too long is broken. A blank far to the left
// gives way to a comma behind it.
func breakAt(runes []rune, width, indent int) int {
	blank, comma := 0, 0
	for i := indent + 1; i <= width; i++ {
		if runes[i] == ' ' {
			blank = i
		}
		if runes[i-1] == ',' {
			comma = i
		}
	}
	switch {
	case blank > width*2/3 || blank > comma:
		return blank
	case comma > 0:
		return comma
	}
	return width
}

// Remarks writes sentences, a line each.
func Remarks(sentences []string, style Style) string {
	var b strings.Builder
	for _, s := range sentences {
		for _, line := range wrap(clean(s), style.width(), 2) {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return style.render(b.String())
}
