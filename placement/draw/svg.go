package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gorun/placement"
)

// Dimensions of the SVG picture, in pixels.
const (
	svgCell    = 14  // side of a core
	svgPerRow  = 24  // cores in a row
	svgLine    = 20  // height of a line of text
	svgMargin  = 12  // between boxes
	svgNode    = 500 // width of a NUMA node
	svgMemory  = 240 // length of the largest memory
	svgMinimum = 2   // minimum length of a bar
)

const (
	colourFree     = "#9ecae1"
	colourNone     = "#e0e0e0"
	colourIsolated = "#fdd0a2"
	colourMemory   = "#a1d99b"
	colourGPU      = "#c7e9c0"
	colourNIC      = "#dadaeb"
)

// rankColours distinguish neighboring ranks.
var rankColours = []string{
	"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
}

// SVG draws a machine to scale and returns a complete SVG document. Each core has the same area,
// divided among its threads. All memories (NUMA nodes and GPUs) share one scale, and the lines of NICs
// share one for their rates. With placements, cores have the colors of their ranks.
func SVG(m placement.Machine, placed []Placement) string {
	p := &picture{machine: cleaned(m), placed: placed, used: map[rune]bool{}}
	p.topo = p.machine.Topology
	s := &sheet{picture: p}
	for _, n := range p.topo.Nodes {
		s.largest = max(s.largest, n.Memory)
	}
	s.draw()
	return s.document()
}

// sheet is an SVG picture that grows downwards.
type sheet struct {
	*picture
	body          strings.Builder
	largest       int64 // of memory, for the scale
	width, height int
}

func (s *sheet) document() string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"`+
		` font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, s.width, s.height, s.width, s.height, s.body.String())
}

// draw places packages side by side, and everything outside packages below them.
func (s *sheet) draw() {
	y := s.texts(svgMargin, svgMargin, joined(" · ", s.processors(), s.memory(), countedGPUs(s.machine.GPUs),
		s.nics()), s.allowance(), s.scale())
	y = s.key(svgMargin, y)
	below, x := y, svgMargin
	for _, nodes := range byPackage(parts(s.topo)) {
		bottom := s.drawPackage(nodes, x, y)
		below, x = max(below, bottom+svgMargin), x+svgNode+3*svgMargin
	}
	rest := slices.DeleteFunc(devices(s.machine), func(d device) bool { return hasCPUs(s.topo, d.bus.Node) })
	if len(rest) > 0 {
		below = s.texts(svgMargin, below, "at an unknown NUMA node, or one without CPUs:")
		below = s.drawDevices(rest, svgMargin, below)
	}
	for _, n := range s.topo.Nodes {
		if !hasCPUs(s.topo, n.ID) {
			s.drawMemory(n.ID, svgMargin, below)
			below += svgLine
		}
	}
	s.width, s.height = max(s.width, x), below+svgMargin
}

// key explains the colors in use, including those of the first ranks.
func (s *sheet) key(x, y int) (bottom int) {
	names := map[string]string{}
	var colours []string
	for _, c := range s.topo.CPUs {
		colour, state := s.colour(c.ID)
		switch digit := slices.Index(rankColours, colour); {
		case state == "":
			state = "free"
		case digit >= 0 && len(s.placed) > len(rankColours): // there are ten colors
			state = fmt.Sprintf("ranks ending in %d", digit)
		}
		if names[colour] == "" {
			names[colour], colours = state, append(colours, colour)
		}
	}
	for _, colour := range colours {
		s.rect(x, y, svgCell, svgCell, colour, "none", names[colour])
		s.text(x+svgCell+4, y+svgCell-2, names[colour])
		x += svgCell + 16 + 8*columns(names[colour])
	}
	s.width = max(s.width, x)
	return y + svgLine
}

// scale explains the lengths.
func (s *sheet) scale() string {
	if s.largest == 0 {
		return "drawn to scale: cores by number"
	}
	return fmt.Sprintf("drawn to scale: cores by number, memory by size (the longest bar is %s), lines of NICs by rate",
		bytes(s.largest))
}

// within returns an empty sheet for the contents of a box. The size of the box is known only after
// drawing.
func (s *sheet) within() *sheet { return &sheet{picture: s.picture, largest: s.largest} }

func (s *sheet) drawPackage(nodes []part, x, y int) (bottom int) {
	at, inside := y+svgLine+svgMargin/2, s.within()
	for _, n := range nodes {
		at = inside.drawNode(n, x+svgMargin, at) + svgMargin
	}
	title := packageTitle(nodes[0].pkg)
	s.rect(x, y, svgNode+2*svgMargin, at-y, "#fafafa", "#555555", title)
	s.text(x+svgMargin, y+svgLine-4, title)
	s.body.WriteString(inside.body.String())
	return at
}

func (s *sheet) drawNode(one part, x, y int) (bottom int) {
	at, inside := y+svgMargin/2, s.within()
	inside.drawMemory(one.node, x+svgMargin, at)
	at += svgLine + svgMargin/2
	at = inside.drawCaches(byL3(one.cores), x+svgMargin, at)
	if all := s.devicesAt(one.node); len(all) > 0 && s.owns(one) {
		at = inside.drawDevices(all, x+svgMargin, at+svgMargin/2)
	}
	at += svgMargin / 2
	s.rect(x, y, svgNode, at-y, "white", "#999999", "")
	s.body.WriteString(inside.body.String())
	return at
}

func (s *sheet) drawMemory(id, x, y int) {
	length := 0
	if n := s.topo.Node(id); n != nil {
		length = s.length(n.Memory)
	}
	if length > 0 {
		s.rect(x+svgNode-svgMemory-2*svgMargin, y+2, length, svgCell, colourMemory, "none", s.nodeTitle(id))
	}
	s.text(x, y+svgCell, s.nodeTitle(id))
}

func (s *sheet) length(memory int64) int {
	if memory <= 0 || s.largest <= 0 {
		return 0
	}
	return max(svgMinimum, int(float64(svgMemory)*float64(min(memory, s.largest))/float64(s.largest)))
}

// drawCaches draws L3 caches with their cores, side by side while there is room.
func (s *sheet) drawCaches(all []run, x, y int) (bottom int) {
	at, height := x, 0
	for _, r := range all {
		width := min(len(r.cores), svgPerRow)*svgCell + 4
		if at > x && at+width > x+svgNode-2*svgMargin {
			at, y, height = x, y+height, 0
		}
		height = max(height, s.drawCores(r, at, y, width))
		at += width + svgMargin/2
	}
	return y + height
}

// drawCores draws the cores of an L3 cache in a frame, one cell each.
func (s *sheet) drawCores(r run, x, y, width int) (height int) {
	rows := (len(r.cores) + svgPerRow - 1) / svgPerRow
	if r.first >= 0 {
		s.rect(x, y, width, rows*svgCell+4, "#f0f0f0", "#bbbbbb", r.title())
	}
	for i, c := range r.cores {
		s.drawCore(c, x+2+i%svgPerRow*svgCell, y+2+i/svgPerRow*svgCell)
	}
	return rows*svgCell + 8
}

// drawCore divides the cell of a core among its threads.
func (s *sheet) drawCore(c core, x, y int) {
	name := numbered("CPU", c.cpus)
	if c.id >= 0 {
		name = fmt.Sprintf("core %d, %s", c.id, name)
	}
	for i, cpu := range c.cpus {
		from, to := i*(svgCell-2)/len(c.cpus), (i+1)*(svgCell-2)/len(c.cpus)
		colour, state := s.colour(cpu)
		s.rect(x+1, y+1+from, svgCell-2, max(1, to-from), colour, "none", joined(": ", name, state))
	}
}

// colour returns the color of the rank that has a CPU.
func (s *sheet) colour(cpu int) (colour, state string) {
	switch {
	case s.topo.Isolated.Has(cpu):
		return colourIsolated, "isolated"
	case !s.allowed(cpu):
		return colourNone, "not allowed for you"
	}
	for _, p := range s.placed {
		if p.CPUs.Has(cpu) && s.bound() {
			return rankColours[p.Rank%len(rankColours)], fmt.Sprint("rank ", p.Rank)
		}
	}
	return colourFree, ""
}

// drawDevices draws one line per device below its host bridge.
func (s *sheet) drawDevices(all []device, x, y int) (bottom int) {
	const tree = 90 // width of the host bridge names
	for _, b := range grouped(all, func(d device) string { return d.bus.Root }) {
		top := y
		for _, d := range b {
			s.drawDevice(d, x+tree, y)
			y += svgLine
		}
		s.text(x, top+svgCell, clip(b[0].bus.Root, 14))
		s.line(x+tree-6, top+svgLine/2, x+tree-6, y-svgLine/2, 1)
	}
	return y
}

func (s *sheet) drawDevice(d device, x, y int) {
	colour, thick := colourGPU, 1
	if d.nic != nil {
		const perPixel = 100 // Gb/s
		colour, thick = colourNIC, 1+int(min(d.nic.Gbps, 1600))/perPixel
	}
	width := svgNode - 90 - 3*svgMargin
	s.line(x-6, y+svgLine/2, x, y+svgLine/2, thick)
	s.rect(x, y+1, width, svgLine-2, colour, "#999999", d.name+" at "+d.bus.Address)
	if d.gpu != nil {
		s.rect(x, y+svgLine-4, min(s.length(d.gpu.Memory), width), 3, colourMemory, "none", bytes(d.gpu.Memory))
	}
	s.text(x+4, y+svgCell, clip(joined("  ", d.name, d.about), 54))
}

// texts writes lines of text and returns the next vertical position.
func (s *sheet) texts(x, y int, lines ...string) (bottom int) {
	for _, l := range lines {
		y += svgLine
		s.text(x, y-4, l)
		s.width = max(s.width, x+columns(l)*7) // approximate character width
	}
	return y + svgMargin/2
}

func (s *sheet) text(x, y int, text string) {
	fmt.Fprintf(&s.body, "<text x=\"%d\" y=\"%d\">%s</text>\n", x, y, escape(text))
}

// rect draws a box. The title appears on mouse hover.
func (s *sheet) rect(x, y, width, height int, fill, stroke, title string) {
	fmt.Fprintf(&s.body,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"%s\"><title>%s</title></rect>\n",
		x, y, width, height, fill, stroke, escape(title))
}

func (s *sheet) line(x1, y1, x2, y2, thick int) {
	fmt.Fprintf(&s.body, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#777777\" stroke-width=\"%d\"/>\n", x1,
		y1, x2, y2, thick)
}

// xmlMarks escapes the special characters of XML.
var xmlMarks = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// escape replaces control characters and escapes a text for XML.
func escape(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == 0xfffe || r == 0xffff {
			return utf8.RuneError // not allowed in XML
		}
		return r
	}, text)
	return xmlMarks.Replace(text)
}
