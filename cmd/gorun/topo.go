package main

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/draw"
)

// run shows a machine, and who would sit where on it.
func (o *topoOptions) run() error {
	text, err := o.text(textStyle(o.stdout))
	if err != nil {
		return err
	}
	return o.write(text)
}

// unfit is the error of a machine that cannot give what the command line wishes, which has a job's exit code for the
// same.
func unfit(err error) error { return failure{job.ExitUsage, err.Error()} }

// text does what a command line of gorun topo asks for and returns what is to be
// printed.
func (o *topoOptions) text(style draw.Style) (string, error) {
	if o.save != "" {
		return savedTo(o.save)
	}
	m, err := wishedMachine(o)
	if err != nil {
		return "", err
	}
	layout, err := seated(o, m)
	if err != nil {
		return "", unfit(err)
	}
	var impact *draw.Impact
	if o.impact {
		if impact, err = draw.Predict(m, o.modelSize); err != nil {
			return "", unfit(of("--impact", err))
		}
	}
	shown := shownMachine{m, layout, seats(layout), impact}
	text, asked, err := shown.files(o)
	switch {
	case err != nil || text != "":
		return text, err
	case o.JSON:
		return draw.JSON(m, shown.seats, layout.Notes, impact)
	case asked:
		return "", nil
	}
	return shown.text(style), nil
}

// files writes the drawing and the rank file that are asked for; text is what of
// them belongs on standard output.
func (s shownMachine) files(wish *topoOptions) (text string, asked bool, err error) {
	for _, file := range []struct {
		option, name string
		text         func() (string, error)
	}{
		{"--svg", wish.svg, func() (string, error) { return draw.SVG(s.Machine, s.seats), nil }},
		{"--write-rankfile", wish.writeRankFile, s.rankFile},
	} {
		if file.name == "" {
			continue
		}
		asked = true
		content, err := file.text()
		switch {
		case err != nil:
			return "", true, unfit(of(file.option, err))
		case file.name == "-":
			text = content
		default:
			// #nosec G306 -- what the umask leaves is the user's choice
			err = os.WriteFile(file.name, []byte(content), 0o666)
		}
		if err != nil {
			return "", true, of(file.option, err)
		}
	}
	return text, asked, nil
}

// rankFile is where the ranks sit as a rank file, for whatever host is the first.
func (s shownMachine) rankFile() (string, error) {
	return s.layout.RankFile([]string{"+n0"}, []placement.Machine{s.Machine})
}

// shownMachine is a machine with all that there is to be said of it.
type shownMachine struct {
	placement.Machine
	layout placement.Layout
	seats  []draw.Seat
	impact *draw.Impact
}

// text is what a terminal gets: the picture, the matrix, who sits where, the
// prediction.
func (s shownMachine) text(style draw.Style) string {
	parts := []string{draw.Picture(s.Machine, s.seats, style), draw.Matrix(s.Machine, style)}
	if s.seats != nil {
		parts = append(parts, draw.Remarks(append([]string{s.layout.Reason}, s.layout.Notes...), style)+
			draw.Seats(s.Machine, s.seats, style))
	}
	if s.impact != nil {
		parts = append(parts, s.impact.Text(style))
	}
	return joined("\n", parts...)
}

// textStyle is how text is to look on this output: as wide as the terminal, and
// with such characters as its locale has.
func textStyle(stdout io.Writer) draw.Style {
	style := draw.Style{ASCII: !hasUTF8(os.Getenv)}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		style.Width = n
	}
	if width := columnsOf(stdout); width > 0 {
		style.Width = width
	}
	return style
}

// columnsOf is how many columns the terminal has, 0 where the output is none or it does not say.
func columnsOf(stdout io.Writer) int {
	f, ok := stdout.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return max(width, 0) // it is negative where there is none
}

// hasUTF8 reports whether the locale's characters are those of UTF-8: of the
// variables that name it the first that is set counts.
func hasUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}
