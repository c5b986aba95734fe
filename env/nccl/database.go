package nccl

import (
	"cmp"
	"embed"
	"maps"
	"slices"
	"strings"
	"sync"
)

// files are the data. A program does not parse them when it starts.
//
//go:embed data/*.txt
var files embed.FS

// fileNames are the data files in display order.
var fileNames = [...]string{
	"nccl.txt", "nccl-undocumented.txt", "rccl.txt", "rocm.txt", "cuda.txt", "pytorch.txt",
	"mpi.txt", "fabric.txt", "system.txt", "never.txt",
}

type records struct {
	variables []Variable
	byName    map[string]int
	patterns  []int
}

// database parses the data files at its first call. A mistake in them is a bug that tests find.
var database = sync.OnceValue(func() records {
	var all records
	for _, name := range fileNames {
		all.variables = append(all.variables, parseRecords(string(must(files.ReadFile("data/"+name))))...)
	}
	all.byName = make(map[string]int, len(all.variables))
	for i, v := range all.variables {
		if v.IsPattern() {
			all.patterns = append(all.patterns, i)
			continue
		}
		all.byName[v.Name] = i
	}
	return all
})

// parseRecords parses a data file. A record is a name at the start of a line, followed by indented lines "key:
// text". A line indented by four continues the previous text. Lines that begin with # and empty lines are
// ignored. A line "library: X" before the first name applies to all records. The key "if A|B*" is a caution
// about such values, "debugging A|B*" about values for debugging alone.
func parseRecords(text string) (all []Variable) {
	shared := map[string]string{}
	fields, last := shared, ""
	name := ""
	flush := func() {
		if name != "" {
			all = append(all, newVariable(name, shared, fields))
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		key, value, hasKey := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "    "):
			fields[last] += " " + strings.TrimSpace(line)
		case hasKey:
			fields[key], last = value, key
		default:
			flush()
			name, fields = line, map[string]string{}
		}
	}
	flush()
	return all
}

// must is for the data, all of which tests read.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// newVariable makes a Variable from its record.
func newVariable(name string, shared, fields map[string]string) Variable {
	take := func(key string) string {
		text, own := fields[key]
		if !own {
			text = shared[key]
		}
		delete(fields, key)
		return text
	}
	v := Variable{
		Name: name, Library: Library(take("library")), Status: Status(take("status")),
		Meaning: take("meaning"), Default: take("default"), Values: take("values"),
		Helps: take("helps"), Hurts: take("hurts"), Scope: Scope(take("scope")), Advice: take("advice"),
		Others:  take("others"),
		Instead: strings.Fields(take("instead")),
	}
	handling, how, _ := strings.Cut(take("gorun"), " ")
	v.Gorun, v.How = Handling(handling), how
	v.Status, v.Gorun = cmp.Or(v.Status, Live), cmp.Or(v.Gorun, Leaves)
	v.Syntax = parseSyntax(take("syntax"))
	if v.Values == "" {
		v.Values = v.Syntax.String()
	}
	for key, to := range map[string]*Version{"since": &v.Since, "until": &v.Until} {
		if text := take(key); text != "" {
			*to = must(ParseVersion(text))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		kind, values, _ := strings.Cut(key, " ")
		v.Cautions = append(v.Cautions, Caution{strings.Split(values, "|"), kind == "debugging", fields[key]})
	}
	return v
}
