package engine

import (
	"fmt"
	"slices"
	"strings"

	"gorun/env"
)

// Find returns the engine's job that this process is in. wanted is the name of an engine, "" for any, or [None]. The
// result is nil if none exists, which is an error if wanted names one, and in a rank of gorun, because its job has
// the hosts. A variable that cannot be parsed is an error.
func Find(w World, wanted string) (*Found, error) {
	if wanted == None {
		return nil, nil
	}
	if env.Marked(w.Lookup) != "" {
		if wanted == "" {
			return nil, nil
		}
		return nil, fmt.Errorf("this is a rank of another gorun (%s is set), whose job has the engine's hosts: name hosts "+
			"by -H, or leave the engine out", env.VarJob)
	}
	for _, k := range kinds {
		if wanted != "" && wanted != k.name {
			continue
		}
		r := &reader{World: w}
		found := k.find(r)
		switch {
		case r.err != nil:
			return nil, fmt.Errorf("%w; --engine %s does without %s", r.err, None, k.title)
		case found != nil:
			found.Engine, found.title = k.name, k.title
			return found, nil
		case wanted != "":
			return nil, fmt.Errorf("this process is not in a job of %s: %s", k.title, w.lack(k.vars))
		}
	}
	if wanted != "" {
		return nil, fmt.Errorf("unknown engine %q: use one of %s", wanted, strings.Join(Names(), ", "))
	}
	return nil, nil
}

// lack says which variables are missing.
func (w World) lack(names []string) string {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return w.get(name) != "" })
	if len(missing) == 0 {
		return isAre(names) + " not as in its jobs"
	}
	return isAre(missing) + " not set"
}

// isAre returns "A is", "A and B are" or "A, B and C are".
func isAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last] + " are"
}

// get returns a variable's value; empty and unset are the same.
func (w World) get(name string) string {
	value, _ := w.Lookup(name)
	return value
}

// first returns the first variable that has a value, and the value.
func (w World) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := w.get(name); value != "" {
			return name, value
		}
	}
	return names[0], ""
}
