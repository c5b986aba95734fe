package show

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"gorun/placement/draw"
)

// Style returns how text should look on w: as wide as the terminal, or $COLUMNS, and in the characters of the locale.
func Style(w io.Writer) draw.Style {
	style := draw.Style{ASCII: !UTF8(os.Getenv), Width: Width(w)}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 && style.Width == 0 {
		style.Width = n
	}
	return style
}

// Width returns the number of columns of the terminal that w is, or 0.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return max(width, 0) // negative unless it is a terminal
}

// UTF8 reports whether the locale's character set is UTF-8, by the first variable that is set.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}

// Colour reports whether text on w gets colours: NO_COLOR forbids them, FORCE_COLOR or CLICOLOR_FORCE demands them (but
// 0), and otherwise w has to be a terminal that is not dumb. See https://no-color.org, https://force-color.org and
// https://bixense.com/clicolors.
func Colour(w io.Writer) bool {
	switch force := cmp.Or(os.Getenv("FORCE_COLOR"), os.Getenv("CLICOLOR_FORCE")); {
	case os.Getenv("NO_COLOR") != "" || force == "0":
		return false
	case force != "":
		return true
	}
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
