package nccl

import (
	"embed"
	"fmt"
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
		text, err := files.ReadFile("data/" + name)
		if err == nil {
			var read []Variable
			read, err = parseRecords(string(text))
			all.variables = append(all.variables, read...)
		}
		if err != nil {
			panic(fmt.Sprintf("env/nccl: %s: %v", name, err))
		}
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
func parseRecords(text string) ([]Variable, error) {
	var all []Variable
	var fields map[string]string
	var name, last string
	shared := map[string]string{}
	flush := func() error {
		if name == "" {
			return nil
		}
		v, err := newVariable(name, shared, fields)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, v)
		return nil
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		key, value, hasKey := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "    ") && last != "":
			fields[last] += " " + strings.TrimSpace(line)
		case line[0] == ' ' && hasKey && name != "" && fields[key] == "":
			fields[key], last = value, key
		case line[0] != ' ' && hasKey && name == "":
			shared[key] = value
		case line[0] != ' ' && !hasKey:
			if err := flush(); err != nil {
				return nil, err
			}
			name, last, fields = line, "", map[string]string{}
		default:
			return nil, fmt.Errorf("line %d is no record, no key: text, or the key is there twice", number)
		}
	}
	return all, flush()
}

// newVariable makes a Variable from its record.
func newVariable(name string, shared, fields map[string]string) (v Variable, err error) {
	if strings.ContainsAny(name, " \t=") {
		return v, fmt.Errorf("the name of a variable has no blanks")
	}
	take := func(key string) string {
		text, own := fields[key]
		if !own {
			text = shared[key]
		}
		delete(fields, key)
		return text
	}
	v = Variable{
		Name: name, Library: Library(take("library")), Status: Status(take("status")),
		Meaning: take("meaning"), Default: take("default"), Values: take("values"),
		Helps: take("helps"), Hurts: take("hurts"), Scope: Scope(take("scope")), Advice: take("advice"),
		Others:  take("others"),
		Instead: strings.Fields(take("instead")),
	}
	handling, how, _ := strings.Cut(take("gorun"), " ")
	v.Gorun, v.How = Handling(handling), how
	if v.Status == "" {
		v.Status = Live
	}
	if v.Gorun == "" {
		v.Gorun = Leaves
	}
	if v.Syntax, err = parseSyntax(take("syntax")); err != nil {
		return v, err
	}
	if v.Values == "" {
		v.Values = v.Syntax.String()
	}
	for _, bound := range []struct {
		key string
		to  *Version
	}{{"since", &v.Since}, {"until", &v.Until}} {
		if text := take(bound.key); text != "" {
			if *bound.to, err = ParseVersion(text); err != nil {
				return v, fmt.Errorf("%s: %w", bound.key, err)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		kind, values, _ := strings.Cut(key, " ")
		if values == "" || kind != "if" && kind != "debugging" {
			return v, fmt.Errorf("no field is called %q", key)
		}
		v.Cautions = append(v.Cautions, Caution{strings.Split(values, "|"), kind == "debugging", fields[key]})
	}
	return v, v.valid()
}

// valid returns an error if a record is incomplete.
func (v Variable) valid() error {
	switch {
	case v.Library == "":
		return fmt.Errorf("which library reads it?")
	case v.Meaning == "" && v.Alive():
		return fmt.Errorf("what does it mean?")
	case !slices.Contains([]Status{Live, Undocumented, Deprecated, Removed, Never}, v.Status):
		return fmt.Errorf("status: %q is unknown", v.Status)
	case v.Alive() && !slices.Contains([]Scope{ScopeJob, ScopeHost, ScopeLog}, v.Scope):
		return fmt.Errorf("scope: %q is unknown", v.Scope)
	case !slices.Contains([]Handling{Sets, Detects, Offers, Leaves}, v.Gorun):
		return fmt.Errorf("gorun: %q is unknown", v.Gorun)
	case v.Status != Live && v.Status != Undocumented && v.Advice == "":
		return fmt.Errorf("what is to be done in place of it? (advice)")
	case v.Status == Removed && v.Until.IsZero():
		return fmt.Errorf("until when was there one?")
	}
	return nil
}
