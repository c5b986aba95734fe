package dialect

import (
	"slices"
	"strings"
)

// Group is a heading of the help.
type Group uint8

// The groups, in the order of the help.
const (
	GroupRanks Group = iota
	GroupHosts
	GroupSlurm
	GroupHandled
	GroupReach
	GroupMachine
	GroupPlaces
	GroupMeasured
	GroupMeasuring
	GroupShown
	GroupProgram
	GroupServing
	GroupMeeting
	GroupLimits
	GroupOutput
	GroupEnd
	GroupSubmitted
	GroupLook
	groups // their number

	// GroupAccepted holds options that ask for what happens anyway, and
	// GroupRefused those that are known only to be refused with a reason. The help
	// leaves both out, docs/reference/options.md has them.
	GroupAccepted Group = 100
	GroupRefused  Group = 101
	// GroupMPI holds what is done as mpirun and mpiexec do it; the help of those that are
	// called so has it.
	GroupMPI Group = 102
)

// String is the group's heading.
func (g Group) String() string {
	switch g {
	case GroupAccepted:
		return "Accepted, with nothing to do"
	case GroupRefused:
		return "Refused, with what to use instead"
	case GroupMPI:
		return "As mpirun and mpiexec have it"
	}
	return [...]string{
		"How many ranks", "Where they run", "What Slurm gives them", "How Slurm treats the job",
		"How other hosts are reached", "Which machine", "Who sits where", "What is measured", "How it is measured",
		"What is shown", "What they run", "Where it listens", "How they meet",
		"What it takes", "Output", "How the job ends", "How it is submitted", "Looking before and after",
	}[g]
}

// Source says which environment variables give an option's default.
type Source uint8

// The sources.
const (
	varGorun Source = iota // GORUN_*, of options that gorun's own help has
	varBoth                // GORUN_*, and PET_* as in torchrun
	// NoVar: none does.
	NoVar
)

// family joins options that answer the same question: one of them on the command
// line makes the variables of all of them moot.
type family uint8

const (
	familyNone family = iota
	FamilyCount
	familyHosts
	familyGrace
	familyStart
	familyLabel
	familyLoudness
	familyFiles
	familyMap
	familyRank
	familyBind
	familyNUMA
	familyCPUs
	familyPE
	familyGPUs
	familyRankFile
	familyThreads
	familyMemory
	familyOversubscribe
	familyNoLocal
	familyDefaultHosts
	familySSH
	familySSHArgs
	familySSHTimeout
	familyEngine
	familyExport
	familyDir
	familyStdin
	familyFailure
	familyDryRun
	familyPerHost
	familyIsolate
)

// exclusive are families of which an answer to one is none beside that of another: what a
// rank is bound to is said in one way.
var exclusive = [...][2]family{
	{familyNUMA, familyMap},
	{familyNUMA, familyBind},
	{familyNUMA, familyCPUs},
	{familyRankFile, familyMap},
	{familyRankFile, familyBind},
	{familyRankFile, familyRank},
	{familyRankFile, familyNUMA},
	{familyRankFile, familyCPUs},
	{familyRankFile, familyPE},
	{familyCPUs, familyBind},
	{familyCPUs, familyPE},
	{familyNUMA, familyPE},
}

// settles reports whether an answer of one family leaves no room for one of another.
func (f family) settles(other family) bool {
	if f == familyNone || other == familyNone {
		return false
	}
	return f == other || slices.Contains(exclusive[:], [2]family{f, other}) ||
		slices.Contains(exclusive[:], [2]family{other, f})
}

// Option is one row of a dialect's table.
type Option struct {
	// Names are all spellings, without dashes and with dashes between words; the
	// first names the variables and leads in docs. One letter takes one dash, more
	// take two (in gorun's own dialect also one). Underscores may stand for the
	// dashes between words everywhere.
	Names []string
	// Group is the heading under which the option stands.
	Group Group
	// Value is the placeholder of the value; "" is a flag.
	Value string
	// Choices are the values to offer, where they can be listed and are not what Value says.
	Choices []string
	// Help is what the option does, in a sentence without a full stop. For an option
	// of GroupRefused it is why, and what to use instead.
	Help string

	// Attached: -n4 is -n 4, a digit may follow the name.
	Attached bool
	// Optional is a flag that may have a value behind "=": Set gets "true" where it has none.
	Optional bool
	// Counts is a flag that may be repeated; its variable holds the number.
	Counts bool
	// Dirs: the value is a directory, for completion.
	Dirs bool
	// From says which variables give the default.
	From Source
	// Family joins options that answer the same question.
	Family family
	// Set takes a value; nil for an option of GroupRefused.
	Set func(Arg) error

	words int  // words of the value; 0 is one. Two are joined by "=", and may be written so
	block bool // it also stands before a later program of an MPMD job
}

// Arg is one value of an option and where it came from.
type Arg struct {
	Value string
	On    bool   // of a flag
	From  string // as the user gave it: "-np 3", "GORUN_NP=3"
}

// TakesValue reports whether the option is followed by a value.
func (o *Option) TakesValue() bool { return o.Value != "" }

// choices are the values to offer: of N|auto|gpu the words in small letters.
func (o *Option) choices() []string {
	if o.Choices != nil {
		return o.Choices
	}
	return slices.DeleteFunc(strings.Split(o.Value, "|"), func(word string) bool {
		return word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != ""
	})
}

// Refused reports whether the option is known only to be refused.
func (o *Option) Refused() bool { return o.Group == GroupRefused }

// Spelling returns the name with the dashes it takes.
func Spelling(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// short returns the option's one-letter name, if it has one.
func (o *Option) short() string {
	if i := slices.IndexFunc(o.Names, func(n string) bool { return len(n) == 1 }); i >= 0 {
		return o.Names[i]
	}
	return ""
}

// Variables returns the names of the environment variables that give the option's default, the strongest first:
// nproc-per-node behind PET_ is PET_NPROC_PER_NODE.
func (o *Option) Variables() []string {
	name := strings.ToUpper(strings.ReplaceAll(o.Names[0], "-", "_"))
	switch {
	case o.From == varBoth:
		return []string{"GORUN_" + name, "PET_" + name}
	case o.From == varGorun && o.Group < groups:
		return []string{"GORUN_" + name}
	}
	return nil
}
