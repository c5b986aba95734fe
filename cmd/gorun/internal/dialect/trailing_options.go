package dialect

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// optionsOfLaunchers are those that hardly any program has itself, unlike --timeout, --gpus or --log-dir.
var optionsOfLaunchers = []string{
	"nproc-per-node", "nnodes", "node-rank", "hostfile", "max-restarts", "hang-timeout", "bind-to", "map-by", "rank-by",
	"numa-binding", "report-bindings", "oversubscribe", "gpus-per-rank", "cpus-per-rank", "rdzv-backend", "rdzv-endpoint",
	"rdzv-id", "rdzv-conf", "standalone", "on-failure", "local-ranks-filter",
}

// noteTrailingOptions notes a launcher's options among the arguments of a program that does not know them.
func (p *Line) noteTrailingOptions() {
	if d := p.Invocation.Dialect; d != Gorun && d != Run {
		return
	}
	for _, app := range p.Spec.Apps {
		words := append([]string{app.Program}, app.Args...)
		if end := slices.Index(words, "--"); end >= 0 {
			words = words[:end]
		}
		if len(trailing(words, optionsOfLaunchers)) > 0 {
			p.NoteTrailingOptions(words, p.unknownTo(app)...)
		}
	}
}

// unknownTo returns the launcher's options that the file of a program does not mention. A program that may be a
// launcher, or pass its arguments on to one, knows all.
func (p *Line) unknownTo(app job.App) []string {
	file := app.Program
	if strings.HasPrefix(path.Base(file), "python") && len(app.Args) > 0 {
		file = app.Args[0]
	}
	isPython := strings.HasSuffix(file, ".py")
	if app.Start == job.StartModule || nestedLauncher(app) != "" || !isPython && !strings.Contains(file, "/") {
		return nil
	}
	if !path.IsAbs(file) {
		file = path.Join(cmp.Or(app.Dir, p.Spec.Dir), file)
	}
	text, err := p.around.ReadFile(file)
	if err != nil || !isPython && bytes.HasPrefix(text, []byte("#!")) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(optionsOfLaunchers), func(name string) bool {
		return bytes.Contains(text, []byte(name)) || bytes.Contains(text, []byte(strings.ReplaceAll(name, "-", "_")))
	})
}

// NoteTrailingOptions notes options that follow the program and so are its arguments.
func (p *Line) NoteTrailingOptions(words []string, names ...string) {
	if found := trailing(words, names); len(found) > 0 {
		p.note("%s gets %s: write options for gorun before the program", words[0], enumerate(found, "and"))
	}
}

// trailing returns those of some long options that follow the first word, as they were typed, without values.
func trailing(words, names []string) (found []string) {
	for _, word := range words[min(len(words), 1):] {
		option, _, _ := strings.Cut(word, "=")
		name, long := strings.CutPrefix(option, "--")
		if long && slices.Contains(names, strings.ReplaceAll(name, "_", "-")) {
			found = append(found, option)
		}
	}
	return found
}
