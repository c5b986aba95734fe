// Package nccl is a database of the environment variables of NCCL, RCCL and related software: PyTorch, Gloo,
// UCX, MPI, libfabric, CUDA and ROCm. For each variable it has the meaning, valid values, versions, benefits,
// risks, and how gorun sets it.
//
// The records are text files in data. The first query parses them, so a program that only starts a job pays
// nothing for them. The package is pure: callers pass in environments, files and file systems.
//
// The sources are NCCL's source and user guide at 2.30.7, its release history, RCCL's source at 2.21.5, and
// AMD's reference for later changes. Tests compare the names with the library.
package nccl

import (
	"slices"
	"strings"
)

// Variable describes one environment variable.
type Variable struct {
	// Name is the variable, or a pattern such as "NCCL_FASTRAK_*".
	Name string `json:"name"`
	// Library is the library that reads it.
	Library Library `json:"library"`
	// Status reports whether the variable has an effect.
	Status  Status `json:"status"`
	Meaning string `json:"meaning,omitempty"` // what the variable sets
	Default string `json:"default,omitempty"` // the default, or "unset" if no value equals it
	Values  string `json:"values,omitempty"`  // the values that the library understands
	// Syntax is Values in machine-readable form.
	Syntax Syntax `json:"-"`
	// Others is the effect of invalid values, a clause; it may be "".
	Others string `json:"invalid_values,omitempty"`
	// Since is the first version of the library that reads the variable; zero means unknown or all versions.
	Since Version `json:"since,omitzero"`
	Until Version `json:"until,omitzero"`  // the first version that no longer reads it
	Helps string  `json:"helps,omitempty"` // when the variable is useful; may be ""
	Hurts string  `json:"hurts,omitempty"` // when it is harmful; may be ""
	// Scope is the scope in which values must agree.
	Scope Scope `json:"scope,omitempty"`
	// Gorun reports whether gorun sets the variable, How under which condition.
	Gorun Handling `json:"handling"`
	How   string   `json:"condition,omitempty"`
	// Instead are replacements for a name that was removed or never existed.
	Instead []string `json:"instead,omitempty"`
	// Advice is one or two sentences that recommend an action.
	Advice string `json:"advice,omitempty"`
	// Cautions apply to some of its values.
	Cautions []Caution `json:"-"`
}

// Caution is a warning about some values.
type Caution struct {
	// Values are shell patterns such as "ib*". Case does not matter.
	Values []string
	// Debugging reports that these values are for debugging alone.
	Debugging bool
	// Text is a sentence.
	Text string
}

// Fits reports whether the caution applies to a value.
func (c Caution) Fits(value string) bool {
	for _, pattern := range c.Values {
		if fits(strings.ToUpper(pattern), strings.ToUpper(value)) {
			return true
		}
	}
	return false
}

// Library is the software that reads a variable.
type Library string

// The libraries that code refers to. The data has more.
const (
	NCCL    Library = "NCCL"
	RCCL    Library = "RCCL"
	PyTorch Library = "PyTorch"
	Gloo    Library = "Gloo"
)

// Status is the support status of a variable.
type Status string

// The support statuses.
const (
	Live         Status = "live"
	Undocumented Status = "undocumented" // it works without any guarantee
	Deprecated   Status = "deprecated"   // it works, but has a replacement
	Removed      Status = "removed"      // only old versions read it
	Never        Status = "never"        // no version ever read it
)

// Scope is the scope in which the values of a variable must agree.
type Scope string

// The scopes.
const (
	ScopeJob  Scope = "job"  // must be equal on all ranks, or they hang, fail or compute wrong results
	ScopeHost Scope = "host" // may differ between hosts or ranks
	ScopeLog  Scope = "log"  // affects only log output
)

// Handling is how gorun sets a variable.
type Handling string

// The ways to set a variable.
const (
	Sets    Handling = "sets"    // in every job
	Detects Handling = "detects" // if the job needs it
	Offers  Handling = "offers"  // if an option requests it
	Leaves  Handling = "never"
)

// MustAgree reports whether all ranks of a job need the same value.
func (v Variable) MustAgree() bool { return v.Scope == ScopeJob && v.Alive() }

// Alive reports whether a current version of its library reads the variable.
func (v Variable) Alive() bool { return v.Status != Removed && v.Status != Never }

// In reports whether a version of its library has the variable. The zero Version means the newest.
func (v Variable) In(version Version) bool {
	if v.Status == Never {
		return false
	}
	if version.IsZero() {
		return v.Status != Removed
	}
	return version.Compare(v.Since) >= 0 && (v.Until.IsZero() || version.Compare(v.Until) < 0)
}

// IsPattern reports whether Name is a pattern.
func (v Variable) IsPattern() bool { return strings.HasSuffix(v.Name, "*") }

// Lookup returns the record of a variable. If only a pattern matches, Lookup returns the pattern's record.
func Lookup(name string) (Variable, bool) {
	all := database()
	if i, found := all.byName[name]; found {
		return all.variables[i], true
	}
	best := -1
	for _, i := range all.patterns {
		prefix := strings.TrimSuffix(all.variables[i].Name, "*")
		if strings.HasPrefix(name, prefix) && len(name) > len(prefix) &&
			(best < 0 || len(all.variables[best].Name) <= len(prefix)) {
			best = i
		}
	}
	if best < 0 {
		return Variable{}, false
	}
	return all.variables[best], true
}

// Variables returns all records in the order of the data files, which groups related variables. The caller
// owns the slice.
func Variables() []Variable { return slices.Clone(database().variables) }

// Matching returns the records that match a name or a shell pattern ("NCCL_IB_*"). Case does not matter.
func Matching(pattern string) []Variable {
	if !strings.ContainsAny(pattern, "*?") {
		for _, name := range []string{pattern, strings.ToUpper(pattern)} {
			if v, found := Lookup(name); found {
				return []Variable{v}
			}
		}
		return nil
	}
	var found []Variable
	for _, v := range database().variables {
		if fits(strings.ToUpper(pattern), v.Name) {
			found = append(found, v)
		}
	}
	return found
}

// fits reports whether a name matches a pattern with * and ?. A * in the name is an ordinary character.
func fits(pattern, name string) bool {
	star, mark, at := -1, 0, 0
	i := 0
	for at < len(name) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, at
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == name[at]):
			i++
			at++
		case star >= 0:
			mark++
			i, at = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
