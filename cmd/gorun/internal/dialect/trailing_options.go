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
	"HfArgumentParser", "CLI", ".cli", "cli.", "exec(", "distributed.run",
}

// knownModules read no arguments unless a script asks them to. They are all that many scripts import.
var knownModules = strings.Fields("__future__ collections contextlib copy dataclasses datetime functools json " +
	"logging math numpy os pathlib pickle random re shutil signal socket sys tempfile time torch torchvision typing")

// checkTrailingOptions notes gorun's options among the arguments of a program that does not know them, and refuses them
// if it cannot know them: the job would run on without.
func (p *Line) checkTrailingOptions() {
	if d := p.Invocation.Dialect; d != Gorun && d != Run {
		return
	}
	for i, app := range p.Spec.Apps {
		words := append([]string{app.Program}, app.Args...)
		if end := slices.Index(words, "--"); end >= 0 {
			words = words[:end]
		}
		options := slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return !looksLikeOption(word) })
		unknown, certain := p.unknownTo(app, options)
		if unknown == nil {
			continue // before the tables of options are made
		}
		names := p.ownAmong(unknown)
		if found := trailing(words, names); certain && found != nil {
			p.problem("%s reads no arguments, but gets %s: %s", nameOf(app), enumerate(found, "and"), p.optionsFirst(i, names))
		} else {
			p.noteTrailing(i, words, names)
		}
	}
}

// ownAmong returns those names that are gorun's own long options, or the short ones for ranks and hosts.
func (p *Line) ownAmong(names []string) (own []string) {
	for o := range p.dialect.Options {
		if o.Group >= numHelpGroups || o.Name() == "help" || o.Name() == "version" {
			continue
		}
		for _, n := range o.AllNames() {
			if slices.Contains(names, n) && (len(n) > 1 || n == "n" || n == "H") {
				own = append(own, n)
			}
		}
	}
	return own
}

// optionsFirst says how to write the line with these options before a program, or before the first one.
func (p *Line) optionsFirst(program int, names []string) string {
	const otherwise = "write options before the program"
	if program >= len(p.typed) || p.command != nil {
		return otherwise
	}
	app := p.Spec.Apps[program]
	words := append(append([]string{app.Program}, app.Args...), "--")
	end := slices.Index(words, "--")
	first := p.MoveOptionsFirst(words[:end], func(word string, _ *Option, _ []string) bool {
		return trailing([]string{"", word}, names) != nil
	})
	at := slices.Index(first, "--")
	how := otherwise
	for _, block := range []int{0, program} {
		line := Invocation{Spec: p.Spec, typed: slices.Clone(p.typed)}
		line.typed[block] = slices.Concat(line.typed[block], first[:at])
		how = p.runOr(how, line.line(program, slices.Concat(first[at+1:], words[end:len(words)-1])))
	}
	return how
}

// nameOf returns the script that a Python interpreter gets, or the program.
func nameOf(app job.App) string {
	if strings.HasPrefix(path.Base(app.Program), "python") && len(app.Args) > 0 {
		return app.Args[0]
	}
	return app.Program
}

// unknownTo returns the names of those options that the file of a program does not mention. A program that may be a
// launcher, or pass its arguments on to one, knows all. A script whose modules may take options, and a binary, which
// may be large, only lack those of launchers. It is certain if a script reads no arguments at all.
func (p *Line) unknownTo(app job.App, options []string) (names []string, certain bool) {
	file := nameOf(app)
	if len(options) > 0 && file == options[0] {
		return []string{optionName(file)}, false
	}
	isPython := strings.HasSuffix(file, ".py")
	ofLaunchers := func(option string) bool {
		name := optionName(option)
		return slices.Contains(optionsOfLaunchers, name) || !isPython && name == "dry-run"
	}
	launcher, _ := launcherIn(app)
	if len(options) == 0 || app.Start == job.StartModule || launcher != "" ||
		!isPython && !(strings.Contains(file, "/") && slices.ContainsFunc(options, ofLaunchers)) {
		return nil, false
	}
	if !path.IsAbs(file) {
		file = path.Join(cmp.Or(app.Dir, p.Spec.Dir), file)
	}
	text, err := p.around.ReadFile(file)
	if err != nil || !isPython && bytes.HasPrefix(text, []byte("#!")) {
		return nil, false
	}
	text = bytes.ReplaceAll(text, []byte("'"), []byte(`"`))
	mentions := func(word string) bool { return bytes.Contains(text, []byte(word)) }
	takesOthers := sync.OnceValue(func() bool { // most scripts mention all of their options
		modules := imported(text)
		certain = !slices.ContainsFunc(modules, func(name string) bool { return !slices.Contains(knownModules, name) })
		return !isPython || slices.ContainsFunc(otherParsers, mentions) ||
			slices.ContainsFunc(modules, func(name string) bool { return p.hasModule(path.Dir(file), name) })
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
	return names, !takesOthers() && certain
}

// hasModule reports whether a Python module lies in a directory.
func (p *Line) hasModule(dir, name string) bool {
	return slices.ContainsFunc([]string{".py", "/__init__.py"}, func(ending string) bool {
		_, err := p.around.ReadFile(path.Join(dir, name+ending))
		return err == nil
	})
}

// imported returns the names of modules that a script imports, without those of submodules.
func imported(script []byte) (names []string) {
	for line := range strings.Lines(string(script)) {
		what, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "from" {
			list, _, _ = strings.Cut(list, " import")
		} else if what != "import" {
			continue
		}
		for part := range strings.SplitSeq(list, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
			name, _, _ = strings.Cut(name, ".")
			names = append(names, name)
		}
	}
	return names
}

// NoteTrailingOptions notes options that follow the only program and so are its arguments.
func (p *Line) NoteTrailingOptions(words []string, names ...string) { p.noteTrailing(0, words, names) }

func (p *Line) noteTrailing(program int, words, names []string) {
	if found := trailing(words, names); len(found) > 0 {
		p.note("%s gets %s; for gorun %s", words[0], enumerate(found, "and"), p.optionsFirst(program, names))
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
