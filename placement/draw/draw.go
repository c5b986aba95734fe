// Package draw shows a [placement.Machine], and who sits where on it, to people:
// as a picture and a matrix for a terminal, as JSON and as SVG. Its functions are
// pure: the same machine gives the same bytes.
//
// Names of devices come from files that anybody may have written (a saved tree, a
// strange driver); what a terminal would obey in them is made visible first, by
// [printable.Text].
package draw

import (
	"reflect"
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
// were equal stay so. Its topology is never nil.
func cleaned(m placement.Machine) placement.Machine {
	if m.Topology == nil {
		m.Topology = &placement.Topology{}
	}
	cleanValue(reflect.ValueOf(&m).Elem())
	return m
}

// cleanValue cleans all texts in a value, and copies what it points to.
func cleanValue(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(clean(v.String()))
	case v.Kind() == reflect.Pointer && !v.IsNil():
		target := reflect.New(v.Type().Elem())
		target.Elem().Set(v.Elem())
		cleanValue(target.Elem())
		v.Set(target)
	case v.Kind() == reflect.Slice && !v.IsNil():
		items := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(items, v)
		for i := range items.Len() {
			cleanValue(items.Index(i))
		}
		v.Set(items)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				cleanValue(field)
			}
		}
	}
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

// writeLine writes a text in lines of at most width columns.
func writeLine(b *strings.Builder, text string, width, indent int) {
	for _, piece := range wrap(text, width, indent) {
		b.WriteString(strings.TrimRight(piece, " ") + "\n")
	}
}

// grouped puts what has the same key into one group, in the order of first appearance.
func grouped[K comparable, T any](items []T, key func(T) K) (groups [][]T) {
	at := map[K]int{}
	for _, item := range items {
		k := key(item)
		if _, known := at[k]; !known {
			at[k], groups = len(groups), append(groups, nil)
		}
		groups[at[k]] = append(groups[at[k]], item)
	}
	return groups
}

// Remarks writes sentences, a line each.
func Remarks(sentences []string, style Style) string {
	var b strings.Builder
	for _, s := range sentences {
		writeLine(&b, clean(s), style.width(), 2)
	}
	return style.render(b.String())
}
