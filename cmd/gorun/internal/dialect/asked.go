package dialect

import (
	"slices"
	"strings"
)

// asking are the options with which the words of gorun env and gorun doctor are what is asked about, and no program
// with its arguments.
var asking = []string{"explain", "lint", "list"}

// parseAsked reads the command line of a command that is asked about its words: options may stand behind them as well.
func (d *Dialect) parseAsked(args []string, around Surroundings) (Invocation, error) {
	asks := d.explains || slices.ContainsFunc(d.rewrite(args).options, func(o occurrence) bool {
		return slices.Contains(asking, o.option.Names[0])
	})
	if asks {
		args = d.optionsFirst(args)
	}
	return d.parse(args, around)
}

// optionsFirst puts options that stand behind words before them. gorun explain's words are somebody's text, in which
// only its own long options are none of it; and what begins like -9 is an exit code.
func (d *Dialect) optionsFirst(args []string) []string {
	var options, words []string
	for len(args) > 0 && args[0] != "--" {
		word, used := args[0], 1
		option, _, glued := d.match(word)
		ours := isOption(word) || pastedOption(word) != ""
		if d.explains {
			ours = ours && !isNegative(word) && (words == nil || option != nil && strings.HasPrefix(word, "--"))
		}
		if !ours {
			words, args = append(words, word), args[1:]
			continue
		}
		if option != nil && option.TakesValue() && !glued {
			used += len(d.values(option, args[1:]))
		}
		options, args = append(options, args[:used]...), args[used:]
	}
	if len(args) > 0 {
		words = append(words, args[1:]...)
	}
	if words == nil {
		return options
	}
	return slices.Concat(options, []string{"--"}, words)
}

// isNegative reports whether a word is a number behind a dash.
func isNegative(word string) bool {
	digits, ok := strings.CutPrefix(word, "-")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// noteAsArguments says which of the options are taken for the program's arguments, for they stand behind it.
func (p *parser) noteAsArguments(words []string, names ...string) {
	if len(words) < 2 {
		return
	}
	for _, word := range words[1:] {
		if slices.Contains(names, word) {
			p.note(word + " stands behind the program " + words[0] + " and is taken for its argument: put it before")
		}
	}
}
