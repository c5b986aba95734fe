// Package nccl is a database of the environment variables of NCCL, RCCL and what
// stands around them: PyTorch's, Gloo's, UCX's, MPI's, libfabric's, CUDA's and
// ROCm's. It says of each what it means, which values it takes, in which versions
// there is one, when it helps and when it hurts, and what gorun does with it.
//
// The records are text files below data, which are read when the first of them is
// asked for and not before: a program that only starts a job pays nothing for them.
// The package is pure: environment, files and file systems are passed in.
//
// Sources are NCCL's source and user guide at 2.30.7 and the history of its
// releases, RCCL's at 2.21.5, and the reference of what AMD changed since; tests
// hold the names against the library itself.
package nccl

import (
	"slices"
	"strings"
)

// Variable is what is known of one environment variable.
type Variable struct {
	// Name is the variable, or the beginning of several: "NCCL_FASTRAK_*".
	Name string `json:"name"`
	// Library is what reads it.
	Library Library `json:"library"`
	// Status says whether it does anything.
	Status Status `json:"status"`
	// Meaning is one clause, Default and Values are for people; Default is "unset"
	// where nothing stands for it.
	Meaning string `json:"meaning,omitempty"`
	Default string `json:"default,omitempty"`
	Values  string `json:"values,omitempty"`
	// Syntax is Values for machines.
	Syntax Syntax `json:"-"`
	// Others is what becomes of other values, a clause; "" where nothing is to be said.
	Others string `json:"others,omitempty"`
	// Since is the first version of Library that has it, zero: not known, or always.
	// Until is the first that has it no more.
	Since Version `json:"since,omitzero"`
	Until Version `json:"until,omitzero"`
	// Helps and Hurts say when it does, "" where nothing is to be said.
	Helps string `json:"helps,omitempty"`
	Hurts string `json:"hurts,omitempty"`
	// Scope says where its values may differ.
	Scope Scope `json:"scope,omitempty"`
	// Gorun says whether gorun sets it, and How under which condition.
	Gorun Handling `json:"gorun"`
	How   string   `json:"condition,omitempty"`
	// Instead are names to use in its place: of a dead one, or one that never was.
	Instead []string `json:"instead,omitempty"`
	// Advice is what to do, a sentence or two.
	Advice string `json:"advice,omitempty"`
	// Cautions are what is to be said of some of its values.
	Cautions []Caution `json:"-"`
}

// Caution is what is to be said of a value.
type Caution struct {
	// Values are patterns of the shell's: "ib*". Letters' case does not count.
	Values []string
	// Debugging says that such a value is for debugging alone.
	Debugging bool
	// Text is a sentence.
	Text string
}

// Fits reports whether it is said of a value.
func (c Caution) Fits(value string) bool {
	for _, pattern := range c.Values {
		if fits(strings.ToUpper(pattern), strings.ToUpper(value)) {
			return true
		}
	}
	return false
}

// Library is what reads a variable.
type Library string

// The libraries whose names are asked for by code; the data has more.
const (
	NCCL    Library = "NCCL"
	RCCL    Library = "RCCL"
	PyTorch Library = "PyTorch"
	Gloo    Library = "Gloo"
)

// Status says whether a variable does anything.
type Status string

// The states.
const (
	Live         Status = "live"
	Undocumented Status = "undocumented" // it works, and its library promises nothing
	Deprecated   Status = "deprecated"   // it works, and another one should be used
	Removed      Status = "removed"      // it did something once
	Never        Status = "never"        // no version ever read it
)

// Scope says where the values of a variable may differ.
type Scope string

// The scopes.
const (
	ScopeJob  Scope = "job"  // equal on all ranks, or they hang, fail or compute nonsense
	ScopeHost Scope = "host" // may differ from host to host, or rank to rank
	ScopeLog  Scope = "log"  // concerns what is printed, and nothing else
)

// Handling says whether gorun sets a variable.
type Handling string

// The ways.
const (
	Sets    Handling = "sets"    // in every job
	Detects Handling = "detects" // where something in the job asks for it
	Offers  Handling = "offers"  // where the user asks for it
	Leaves  Handling = "never"
)

// MustAgree reports whether all ranks of a job need the same value.
func (v Variable) MustAgree() bool { return v.Scope == ScopeJob && v.Alive() }

// Alive reports whether some version of its library that is in use reads it.
func (v Variable) Alive() bool { return v.Status != Removed && v.Status != Never }

// In reports whether a version of its library has the variable; of a version that is
// not known it is said of the newest.
func (v Variable) In(version Version) bool {
	if v.Status == Never {
		return false
	}
	if version.IsZero() {
		return v.Status != Removed
	}
	return version.Compare(v.Since) >= 0 && (v.Until.IsZero() || version.Compare(v.Until) < 0)
}

// IsPattern reports whether Name stands for all variables that begin so.
func (v Variable) IsPattern() bool { return strings.HasSuffix(v.Name, "*") }

// Lookup returns what is known of a variable; of one that only a pattern knows it
// returns the pattern's record.
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

// Variables returns all records, in the order of the data files: what belongs
// together stands together. The caller may keep and change the slice.
func Variables() []Variable { return slices.Clone(database().variables) }

// Matching returns the records of a name, of a pattern of the shell's ("NCCL_IB_*"),
// or none. Letters' case does not count.
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

// fits reports whether a name fits a pattern of * and ?. A pattern's own * is a
// character of its name.
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
