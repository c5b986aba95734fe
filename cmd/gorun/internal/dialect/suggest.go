package dialect

import (
	"fmt"
	"strings"
)

// explainUnknown says that the dialect has no such option and what may have been
// meant; meant is that option, where there is one.
func (d *Dialect) explainUnknown(typed string) (meant *Option, problem error) {
	if found := d.ambiguous(typed); found != nil {
		return nil, fmt.Errorf("%s is ambiguous: it may be %s", typed, strings.Join(found, " or "))
	}
	if o := d.otherDashes(typed); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, Spelling(strings.TrimLeft(typed, "-")))
	}
	if meant, problem = d.elsewhere(typed); problem != nil {
		return meant, problem
	}
	if name, o := d.nearest(strings.TrimLeft(typed, "-")); o != nil {
		return o, fmt.Errorf("unknown option %s: did you mean %s?", typed, Spelling(name))
	}
	return nil, fmt.Errorf("unknown option %s", typed)
}

// otherDashes finds the option that is meant where a strict dialect only misses a
// dash, or has one too many.
func (d *Dialect) otherDashes(typed string) *Option {
	loose := *d
	loose.strict = false
	return loose.exact(typed)
}

// elsewhere says who has an option that this dialect lacks.
func (d *Dialect) elsewhere(typed string) (meant *Option, problem error) {
	if o := Launch.exact(typed); o != nil && !o.Refused() {
		return o, fmt.Errorf("unknown option %s: only gorun launch has it, where --local-rank is put before a script's arguments", typed)
	}
	if o, _, _ := Gorun.match(typed); o != nil && !o.Refused() {
		return o, fmt.Errorf("unknown option %s: gorun has it, %s does not; %s", typed, d.Name, d.instead(o))
	}
	return nil, nil
}

// instead says what to do without an option of gorun's own dialect.
func (d *Dialect) instead(missing *Option) string {
	for o := range d.Options {
		if missing.family != familyNone && o.family == missing.family {
			return "call gorun, or use " + o.Usage()
		}
	}
	return "call gorun for it"
}

// ambiguous lists the options that typed is a prefix of, where it is too short.
func (d *Dialect) ambiguous(typed string) []string {
	prefix, long := strings.CutPrefix(typed, "--")
	if !d.prefixes || !long || prefix == "" {
		return nil
	}
	for _, table := range d.tables {
		var names []string
		for _, o := range withPrefix(table, strings.ReplaceAll(prefix, "_", "-")) {
			names = append(names, Spelling(o.Names[0]))
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}

// nearest returns the name with the fewest edits from typed and its option, or
// nothing where even that one is far. What is not refused is preferred.
func (d *Dialect) nearest(typed string) (name string, option *Option) {
	typed = strings.ToLower(strings.ReplaceAll(typed, "_", "-"))
	best := min(len(typed)/3, 3) + 1
	for _, refused := range []bool{false, true} {
		for o := range d.Options {
			for _, n := range o.Names {
				if len(n) < 2 || o.Refused() != refused {
					continue
				}
				if e := edits(typed, strings.ToLower(n), best); e < best {
					name, option, best = n, o, e
				}
			}
		}
	}
	return name, option
}

// edits is the Levenshtein distance of two names, or most where it is at least
// that.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return min(row[len(b)], most)
}
