// Package signature recognizes error messages of libraries and systems: what a line means, what causes it, how to check
// that, and how to fix it. It is pure.
//
// The files in data/ have one record per signature and are parsed on first use. docs/errors.md says how to add one.
package signature

import (
	"embed"
	"slices"
	"strings"
	"sync"
)

// Kind says how much a line reveals about the cause of a failure.
type Kind uint8

// The kinds, the most telling first.
const (
	Cause   Kind = iota // the line names what went wrong
	Symptom             // something went wrong, but the line does not say what
	Victim              // the line follows from the failure of another process
	Note                // no failure, but it may explain one, or slowness
)

var kindNames = [...]string{"cause", "symptom", "victim", "note"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText writes a kind as its name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Signature is one record of the database. In its texts `…` is a command, {name} is filled from the line, and [[…]]
// is left out if it contains an unknown name.
type Signature struct {
	ID     string `json:"id"`      // such as nccl-shm-full
	Family string `json:"family"`  // its source: NCCL, Slurm, …
	Kind   Kind   `json:"kind"`    // "note" is no failure
	Means  string `json:"meaning"` // what the line means
	// Class is whose fault it usually is: "user", "node", "network", "launcher" or "scheduler".
	Class string `json:"class"`

	// Lines are patterns: literal text, * for anything, {name} for a word, {name#} for a number. Case does not matter.
	Lines    []string `json:"-"`
	Unless   []string `json:"-"` // texts that exclude a line
	Examples []string `json:"-"` // real lines
	Vague    []string `json:"-"` // lines that are too vague for hints, used only without other matches
	Ask      []string `json:"-"` // other search terms of users
	Codes    []string `json:"-"` // exit codes in the format of [ExitCode]

	Cause     string   `json:"cause"`               // usual cause
	Check     string   `json:"check"`               // how to confirm the cause
	Fix       string   `json:"fix"`                 // how to repair it
	Hint      string   `json:"hint,omitempty"`      // one line for a failure report; "" is Fix
	NoHint    bool     `json:"-"`                   // no hint in failure reports
	Variables []string `json:"variables,omitempty"` // related ones
	Signals   []int    `json:"-"`                   // that identify it like a line
	Statuses  []int    `json:"-"`

	patterns []pattern
	unless   []string // in lower case
}

// InReports reports whether a failure report may use a matching line for its hint. Exit codes in lines do not count:
// the report knows how the rank ended.
func (s *Signature) InReports() bool { return s.Kind != Note && !s.NoHint && len(s.Codes) == 0 }

//go:embed data/*.txt
var files embed.FS

// database has the embedded files, in the order of their names.
var database = sync.OnceValue(func() *index {
	var all []Signature
	entries, err := files.ReadDir("data")
	must(err)
	for _, entry := range entries {
		text, err := files.ReadFile("data/" + entry.Name())
		must(err)
		all = append(all, parse(string(text))...)
	}
	return newIndex(all)
})

// All returns the signatures, grouped by family. The caller must not change them.
func All() []Signature { return database().signatures }

// ByID returns the signature with an ID, in any case.
func ByID(id string) (Match, bool) {
	for i := range All() {
		if s := &All()[i]; strings.EqualFold(s.ID, id) {
			return Match{Signature: s}, true
		}
	}
	return Match{}, false
}

// Families returns the families' names, sorted case-insensitively.
func Families() []string {
	var names []string
	for i := range All() {
		if name := All()[i].Family; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return names
}

// InFamily returns the signatures of a family. Case, blanks and dashes in the name do not matter.
func InFamily(name string) []Signature {
	plain := func(s string) string { return strings.NewReplacer(" ", "", "-", "").Replace(strings.ToLower(s)) }
	var list []Signature
	for i := range All() {
		if s := All()[i]; plain(s.Family) == plain(name) {
			list = append(list, s)
		}
	}
	return list
}

// Lookup returns the signature for search terms other than a line, such as "137", "exitcode: -9" or "NCCL timeout".
func Lookup(words string) (Match, bool) {
	words = strings.Join(strings.Fields(words), " ")
	for i := range All() {
		for _, ask := range All()[i].Ask {
			if strings.EqualFold(ask, words) {
				return Match{Signature: &All()[i]}, true
			}
		}
	}
	if code, whole := ExitCode(words); whole {
		return ByCode(code)
	}
	return Match{}, false
}

// ByExit returns the signature of a process that ended by a signal, or with an exit status if signal is 0.
func ByExit(status, signal int) (Match, bool) {
	for i := range All() {
		s := &All()[i]
		if signal != 0 && slices.Contains(s.Signals, signal) || signal == 0 && slices.Contains(s.Statuses, status) {
			return Match{Signature: s}, true
		}
	}
	return Match{}, false
}
