// Package signature knows the lines by which libraries and systems say that something went wrong: what such a line
// means, why it comes, how to check that, and what to do. It is pure: text in, knowledge out.
//
// The knowledge is in the files of data/, one record a signature, which are parsed when somebody asks and not before.
// See docs/reference/errors.md for how to add one.
package signature

import (
	"embed"
	"slices"
	"strings"
	"sync"
)

// Kind says how much a line tells about the cause of a failure.
type Kind uint8

// The kinds, the most telling first.
const (
	Cause   Kind = iota // the line names what went wrong
	Symptom             // something went wrong, and the line leaves open what
	Victim              // the line follows from the failure of another process
	Note                // the line tells of no failure, but of something that may explain one, or slowness
)

var kindNames = [...]string{"cause", "symptom", "victim", "remark"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText writes a kind as its name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Signature is one record of the database. In its texts `…` is a command, {name} what a line held at that place of
// the pattern, and [[…]] is left out when such a name in it is not known.
type Signature struct {
	ID     string `json:"id"`     // such as nccl-shm-full
	Family string `json:"family"` // who says it: NCCL, Slurm, …
	Kind   Kind   `json:"kind"`
	Means  string `json:"means"` // what the line means, in a few words

	// patterns: literal text, * for anything, {name} for a word, {name#} for a number; letters' case does not count
	Lines    []string `json:"-"`
	Unless   []string `json:"-"` // texts with which a line is another signature's
	Examples []string `json:"-"` // true lines
	Vague    []string `json:"-"` // lines that say too little for a report's hint; they count where nothing else does
	Ask      []string `json:"-"` // what somebody may type who asks for it, beside the id and a line
	Codes    []string `json:"-"` // exit codes by which somebody may ask, as [ExitCode] writes them

	Cause     string   `json:"cause"`
	Check     string   `json:"check"`
	Fix       string   `json:"fix"`
	Hint      string   `json:"hint,omitempty"`      // the one line for a failure report; "" is Fix
	NoHint    bool     `json:"-"`                   // its lines leave too much open for a failure report
	Variables []string `json:"variables,omitempty"` // that have to do with it
	Signals   []int    `json:"-"`                   // of a rank's end that tell as much as a line
	Statuses  []int    `json:"-"`

	patterns []pattern
	unless   []string // in small letters
}

// InReports tells whether a failure report may give a hint by a line of this signature. How a process ended is not
// taken from lines: the report knows the rank's own end, by [End].
func (s *Signature) InReports() bool { return s.Kind != Note && !s.NoHint && len(s.Codes) == 0 }

//go:embed data/*.txt
var files embed.FS

// database is what the embedded files hold. A test holds that they can be read.
var database = sync.OnceValue(func() *index {
	list, err := embedded()
	if err != nil {
		panic("the embedded signatures: " + err.Error())
	}
	return newIndex(list)
})

// embedded parses the embedded files, in the order of their names.
func embedded() ([]Signature, error) {
	entries, err := files.ReadDir("data")
	if err != nil {
		return nil, err
	}
	var all []Signature
	for _, entry := range entries {
		text, err := files.ReadFile("data/" + entry.Name())
		if err != nil {
			return nil, err
		}
		list, err := Parse(entry.Name(), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// All returns the signatures, those of a family together. They must not be changed.
func All() []Signature { return database().signatures }

// ByID returns the signature with that name.
func ByID(id string) (Match, bool) {
	for i := range All() {
		if s := &All()[i]; strings.EqualFold(s.ID, id) {
			return Match{Signature: s}, true
		}
	}
	return Match{}, false
}

// Families returns the families' names, sorted without regard to case.
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

// InFamily returns the signatures of a family; letters' case, blanks and dashes in its name do not count.
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

// Asked returns the signature that somebody asks for by other words than its lines have, such as "137", "exitcode: -9"
// or "NCCL timeout".
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

// End returns the signature of a process that ended by a signal, or with an exit status where signal is 0.
func ByExit(status, signal int) (Match, bool) {
	for i := range All() {
		s := &All()[i]
		if signal != 0 && slices.Contains(s.Signals, signal) || signal == 0 && slices.Contains(s.Statuses, status) {
			return Match{Signature: s}, true
		}
	}
	return Match{}, false
}
