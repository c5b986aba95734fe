package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes in pixels of the picture, and of the plot in it.
const (
	pictureWidth, pictureHeight    = 900, 560
	plotLeft, plotTop              = 80, 60
	plotWidth, plotHeight          = 640, 430
	legendLeft, legendLine         = plotLeft + plotWidth + 20, 22
	outColour, inColour            = "#1f6fb4", "#d9730d"
	boundColour, modelColour, grid = "#444444", "#7a4fb0", "#dddddd"
)

// curve is one line of the chart: GB/s by size.
type curve struct {
	name, colour, dash string
	dots               bool
	points             [][2]float64
}

// curves returns the curves that have data.
func (r *Report) curves() (list []curve) {
	all := []curve{
		{name: "out of place", colour: outColour, dots: true},
		{name: "in place", colour: inColour, dots: true},
		{name: "bound", colour: boundColour, dash: "6 4"},
		{name: "model", colour: modelColour, dash: "2 3"},
	}
	add := func(i int, bytes int64, gigabytes float64) {
		if bytes > 0 && gigabytes > 0 {
			all[i].points = append(all[i].points, [2]float64{float64(bytes), gigabytes})
		}
	}
	factor := find(operations, r.Operation).factor(float64(r.Ranks))
	for _, row := range r.Rows {
		if row.OutOfPlace != nil {
			add(0, row.Bytes, row.OutOfPlace.BusBW)
		}
		if row.InPlace != nil {
			add(1, row.Bytes, row.InPlace.BusBW)
		}
		add(2, row.Bytes, row.Bound)
		if row.Predicted > 0 {
			add(3, row.Bytes, factor*float64(row.Bytes)/row.Predicted/1e3)
		}
	}
	for _, c := range all {
		if c.points != nil {
			list = append(list, c)
		}
	}
	return list
}

// axes are the ranges of both axes: powers of two in bytes, powers of ten in GB/s.
type axes struct{ x0, x1, y0, y1 float64 }

func axesOf(curves []curve) axes {
	a := axes{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, c := range curves {
		for _, p := range c.points {
			x, y := math.Log2(p[0]), math.Log10(p[1])
			a.x0, a.x1, a.y0, a.y1 = math.Min(a.x0, x), math.Max(a.x1, x), math.Min(a.y0, y), math.Max(a.y1, y)
		}
	}
	if len(curves) == 0 {
		return axes{0, 1, 0, 1}
	}
	a.x0, a.x1, a.y0, a.y1 = math.Floor(a.x0), math.Ceil(a.x1), math.Floor(a.y0), math.Ceil(a.y1)
	return axes{a.x0, math.Max(a.x1, a.x0+1), a.y0, math.Max(a.y1, a.y0+1)}
}

// x and y convert values to coordinates in the picture.
func (a axes) x(log2 float64) float64 { return plotLeft + plotWidth*(log2-a.x0)/(a.x1-a.x0) }

func (a axes) y(log10 float64) float64 {
	return plotTop + plotHeight*(1-(log10-a.y0)/(a.y1-a.y0))
}

// SVG plots the bus bandwidths against the size with logarithmic axes, including the bound and the model.
func (r *Report) SVG() string {
	curves := r.curves()
	a := axesOf(curves)
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
			`font-family="sans-serif" font-size="12">`+
			"\n",
		pictureWidth, pictureHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", pictureWidth, pictureHeight)
	title := fmt.Sprintf("%s, %d ranks, back end %s, %s", r.Operation, r.Ranks, r.Backend, r.DType)
	if r.Op != "" {
		title += " " + r.Op
	}
	label(&b, plotLeft, 30, "start", title, ` font-size="16"`)
	a.grid(&b)
	for i, c := range curves {
		c.draw(&b, a)
		c.legend(&b, plotTop+10+i*legendLine)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// label writes text at a position; anchor is SVG's text-anchor.
func label(b *strings.Builder, x, y float64, anchor, text, more string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more,
		html.EscapeString(text))
}

// grid draws the grid lines and the labels of both axes.
func (a axes) grid(b *strings.Builder) {
	stride := math.Max(1, math.Ceil((a.x1-a.x0)/12))
	for x := a.x0; x <= a.x1; x += stride {
		fmt.Fprintf(b, `<path d="M%.1f %d v%d" stroke="%s"/>`+"\n", a.x(x), plotTop, plotHeight, grid)
		label(b, a.x(x), plotTop+plotHeight+18, "middle", bytesText(int64(math.Exp2(x))), "")
	}
	for y := a.y0; y <= a.y1; y++ {
		fmt.Fprintf(b, `<path d="M%d %.1f h%d" stroke="%s"/>`+"\n", plotLeft, a.y(y), plotWidth, grid)
		label(b, plotLeft-8, a.y(y)+4, "end", fmt.Sprintf("%g", math.Pow(10, y)), "")
	}
	label(b, plotLeft+plotWidth/2, plotTop+plotHeight+42, "middle", "size", "")
	label(b, 24, plotTop+plotHeight/2, "middle", "bus bandwidth, GB/s",
		fmt.Sprintf(` transform="rotate(-90 24 %d)"`, plotTop+plotHeight/2))
}

// draw draws the curve, with dots at measured sizes.
func (c curve) draw(b *strings.Builder, a axes) {
	var path []string
	for _, p := range c.points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", a.x(math.Log2(p[0])), a.y(math.Log10(p[1]))))
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="%s"/>`+"\n", c.colour, c.dashes(),
		strings.Join(path, " "))
	for _, p := range c.points {
		if c.dots {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %s GB/s</title></circle>`+"\n",
				a.x(math.Log2(p[0])), a.y(math.Log10(p[1])), c.colour, bytesText(int64(p[0])), number(p[1]))
		}
	}
}

// legend writes the curve's entry in the legend.
func (c curve) legend(b *strings.Builder, y int) {
	fmt.Fprintf(b, `<path d="M%d %d h28" stroke="%s" stroke-width="2"%s/>`+"\n", legendLeft, y, c.colour, c.dashes())
	label(b, legendLeft+36, float64(y+4), "start", c.name, "")
}

func (c curve) dashes() string {
	if c.dash == "" {
		return ""
	}
	return fmt.Sprintf(` stroke-dasharray="%s"`, c.dash)
}
