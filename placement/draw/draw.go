// Package draw shows a [placement.Machine] and the placement of ranks on it. The formats are a picture
// and a matrix for a terminal, JSON, and SVG. The functions are pure: the same machine gives the same
// bytes.
//
// Names of devices are untrusted, because they come from saved trees and unknown drivers.
// [printable.Text] makes their control characters visible before output.
package draw

import (
	"reflect"
	"strings"
	"unicode/utf8"

	"gorun/internal/printable"
	"gorun/placement"
)

// Limits and default of the text width, in columns.
const (
	MinWidth     = 60
	MaxWidth     = 120
	DefaultWidth = 100
)

// Style controls the format of text.
type Style struct {
	// Width is the maximum line width in columns, limited to MinWidth and MaxWidth. 0 means DefaultWidth.
	Width int
	// ASCII restricts the output to ASCII, for terminals without a UTF-8 locale.
	ASCII bool
}

func (s Style) width() int {
	if s.Width == 0 {
		return DefaultWidth
	}
	return min(max(s.Width, MinWidth), MaxWidth)
}

// ascii maps each drawing character to an ASCII character of the same width.
func ascii() map[rune]rune {
	return map[rune]rune{
		'╭': '+', '╮': '+', '╰': '+', '╯': '+', '─': '-', '│': '|', '├': '+', '└': '`', '┬': '+',
		'█': '#', '▒': '+', '░': '.', '·': '-', '×': 'x', '…': '~', '→': '>', '÷': '/',
	}
}

// render applies the style to drawn text.
func (s Style) render(text string) string {
	if !s.ASCII {
		return text
	}
	replaced := ascii()
	return strings.Map(func(r rune) rune {
		switch plain, ok := replaced[r]; {
		case ok:
			return plain
		case r < utf8.RuneSelf:
			return r
		}
		return '?'
	}, text)
}

// clean makes the machine's text safe for a single line.
func clean(text string) string { return strings.ReplaceAll(printable.Text(text), "\t", " ") }

// cleaned returns a copy of a machine with all texts safe for a line. Equal texts remain equal. The
// topology of the copy is never nil.
func cleaned(m placement.Machine) placement.Machine {
	if m.Topology == nil {
		m.Topology = &placement.Topology{}
	}
	cleanValue(reflect.ValueOf(&m).Elem())
	return m
}

// cleanValue cleans all texts in a value, and copies the targets of its pointers.
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

// columns returns the width of a text whose characters take one column each.
func columns(text string) int { return utf8.RuneCountInString(text) }

// clip shortens a text to at most width columns.
func clip(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// pad adds trailing spaces up to width columns.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

// wrap breaks a text into lines of at most width columns. It breaks at a space, otherwise after a
// comma, otherwise anywhere. Lines after the first are indented by indent spaces.
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

// breakAt returns the position of a line break. It prefers a comma to a space far to the left of it.
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

// writeLine wraps a text to lines of at most width columns.
func writeLine(b *strings.Builder, text string, width, indent int) {
	for _, piece := range wrap(text, width, indent) {
		b.WriteString(strings.TrimRight(piece, " ") + "\n")
	}
}

// grouped groups values with the same key, in order of first appearance.
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

// Notes writes placement notes, one per line.
func Notes(sentences []string, style Style) string {
	var b strings.Builder
	for _, s := range sentences {
		writeLine(&b, clean(s), style.width(), 2)
	}
	return style.render(b.String())
}
