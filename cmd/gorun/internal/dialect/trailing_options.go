package dialect

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"gorun/launcher/job"
)

// optionsOfLaunchers are those that hardly any program has itself, unlike --timeout, --gpus or --log-dir.
var optionsOfLaunchers = []string{
	"nproc-per-node", "nnodes", "node-rank", "hostfile", "max-restarts", "hang-timeout", "bind-to", "map-by", "rank-by",
	"numa-binding", "report-bindings", "oversubscribe", "gpus-per-rank", "cpus-per-rank", "rdzv-backend", "rdzv-endpoint",
	"rdzv-id", "rdzv-conf", "standalone", "on-failure", "local-ranks-filter",
}

// otherParsers mark a Python script that may take options which it does not name.
var otherParsers = []string{
	"parse_known", "argv", "fire", "hydra", "click", "typer", "tyro", "absl", "docopt", "jsonargparse", "simple_parsing",
	"HfArgumentParser", "CLI", ".cli", "cli.",
}

// noteTrailingOptions notes gorun's options among the arguments of a program that does not know them.
func (p *Line) noteTrailingOptions() {
	if d := p.Invocation.Dialect; d != Gorun && d != Run {
		return
	}
	for _, app := range p.Spec.Apps {
		words := append([]string{app.Program}, app.Args...)
		if end := slices.Index(words, "--"); end >= 0 {
			words = words[:end]
		}
		options := slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return !looksLikeOption(word) })
		if unknown := p.unknownTo(app, options); unknown != nil { // only then the tables of options are made
			p.NoteTrailingOptions(words, p.ownAmong(unknown)...)
		}
	}
}

// ownAmong returns those names that are gorun's own long options, or the short ones for ranks and hosts.
func (p *Line) ownAmong(names []string) (own []string) {
	for o := range p.dialect.Options {
		if o.Group >= numHelpGroups || o.Names[0] == "help" || o.Names[0] == "version" {
			continue
		}
		for _, n := range o.Names {
			if slices.Contains(names, n) && (len(n) > 1 || n == "n" || n == "H") {
				own = append(own, n)
			}
		}
	}
	return own
}

// unknownTo returns the names of those options that the file of a program does not mention. A program that may be a
// launcher, or pass its arguments on to one, knows all. A script whose modules may take options, and a binary, which
// may be large, only lack those of launchers.
func (p *Line) unknownTo(app job.App, options []string) (names []string) {
	file := app.Program
	if strings.HasPrefix(path.Base(file), "python") && len(app.Args) > 0 {
		file = app.Args[0]
		if len(options) > 0 && file == options[0] {
			return []string{optionName(file)}
		}
	}
	isPython := strings.HasSuffix(file, ".py")
	ofLaunchers := func(option string) bool {
		name := optionName(option)
		return slices.Contains(optionsOfLaunchers, name) || !isPython && name == "dry-run"
	}
	launcher, _ := launcherIn(app)
	if len(options) == 0 || app.Start == job.StartModule || launcher != "" ||
		!isPython && !(strings.Contains(file, "/") && slices.ContainsFunc(options, ofLaunchers)) {
		return nil
	}
	if !path.IsAbs(file) {
		file = path.Join(cmp.Or(app.Dir, p.Spec.Dir), file)
	}
	text, err := p.around.ReadFile(file)
	if err != nil || !isPython && bytes.HasPrefix(text, []byte("#!")) {
		return nil
	}
	text = bytes.ReplaceAll(text, []byte("'"), []byte(`"`))
	mentions := func(word string) bool { return bytes.Contains(text, []byte(word)) }
	takesOthers := sync.OnceValue(func() bool { // most scripts mention all of their options
		return !isPython || slices.ContainsFunc(otherParsers, mentions) || p.importsNear(path.Dir(file), text)
	})
	for _, option := range options {
		name := optionName(option)
		mark := "-" + name // as a script's parser has it
		switch {
		case ofLaunchers(option):
			mark = name
		case len(name) == 1:
			mark = `"` + mark + `"`
		}
		if !mentions(mark) && !mentions(strings.ReplaceAll(mark, name, strings.ReplaceAll(name, "-", "_"))) &&
			(mark == name || !takesOthers()) {
			names = append(names, name)
		}
	}
	return names
}

// importsNear reports whether a script imports a module that lies in a directory.
func (p *Line) importsNear(dir string, script []byte) bool {
	exists := func(file string) bool {
		_, err := p.around.ReadFile(path.Join(dir, file))
		return err == nil
	}
	for line := range strings.Lines(string(script)) {
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" ,.\t\r\n", c) })
		if len(words) > 1 && (words[0] == "from" || words[0] == "import") &&
			(exists(words[1]+".py") || exists(words[1]+"/__init__.py")) {
			return true
		}
	}
	return false
}

// NoteTrailingOptions notes options that follow the program and so are its arguments.
func (p *Line) NoteTrailingOptions(words []string, names ...string) {
	if found := trailing(words, names); len(found) > 0 {
		p.note("%s gets %s: write options for gorun before the program", words[0], enumerate(found, "and"))
	}
}

// optionName returns the name of a word that looks like an option, with dashes between its parts.
func optionName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return strings.ReplaceAll(name, "_", "-")
}

// trailing returns those of some options that follow the first word, as they were typed, without values.
func trailing(words, names []string) (found []string) {
	for _, word := range words[min(len(words), 1):] {
		option, _, _ := strings.Cut(word, "=")
		name := optionName(word)
		typed := strings.ReplaceAll(option, "_", "-")
		if slices.Contains(names, name) && (typed == Spelling(name) || typed == "-np") {
			found = append(found, option)
		}
	}
	return found
}
