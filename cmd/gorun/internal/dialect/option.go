package dialect

import (
	"cmp"
	"slices"
	"strings"
)

// Group is a heading of the help and of docs/reference/options.md.
type Group uint8

// The groups, in the order of docs/reference/options.md.
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
	// GroupMPI holds what works as in mpirun and mpiexec. Only the help under these names lists it.
	GroupMPI
	// GroupAccepted holds what asks for what happens anyway. No help lists it.
	GroupAccepted
	// GroupRefused holds what is only known to be refused, with what to use instead.
	GroupRefused
	numGroups

	numHelpGroups = GroupMPI
)

// String returns the heading.
func (g Group) String() string {
	return [numGroups]string{
		"How many ranks", "Hosts and nodes", "Slurm resources", "Slurm scheduling", "Reaching other hosts", "Machine",
		"Placement and binding", "What to measure", "How to measure", "What to show", "Program", "Address", "Rendezvous",
		"Limits", "Output", "End of the job", "Submission", "Plan, notes and help", "Options of mpirun and mpiexec",
		"Accepted without effect", "Refused, with what to use instead",
	}[g]
}

// Source tells which environment variables give an option's default.
type Source uint8

const (
	varGorun Source = iota // GORUN_*, for options in gorun's own help
	varBoth                // GORUN_*, then torchrun's PET_*
	// NoVar is the source of options without a variable.
	NoVar
)

// family joins options that set the same thing: if one of them is on the command line, the variables of all
// of them are ignored.
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

// exclusive lists pairs of families that set the same thing in different ways.
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

// excludes reports whether options of the two families exclude each other.
func (f family) excludes(other family) bool {
	if f == familyNone || other == familyNone {
		return false
	}
	return f == other || slices.Contains(exclusive[:], [2]family{f, other}) ||
		slices.Contains(exclusive[:], [2]family{other, f})
}

// Option is one row of a dialect's table.
type Option struct {
	// Names are all spellings without leading dashes, with a blank between them. The first one names the variables.
	// One letter takes one dash, more letters take two; gorun's own dialect accepts one, too.
	// Underscores may replace the dashes between words.
	Names string
	Group Group
	// Value is the placeholder of the value; "" is a flag.
	Value string
	// Choices are the values to choose from, with | between them; by default the lower-case words of Value.
	Choices string
	// Help says what the option does, without a full stop. In GroupRefused it says what to use instead.
	Help string

	// Attached allows a digit right after the name: -n4.
	Attached bool
	// Optional is a flag that may have a value after "="; else Set gets "true".
	Optional bool
	// Counts is a flag that may be repeated; its variable holds a number.
	Counts bool
	// Dirs completes names of directories.
	Dirs bool
	// From tells which variables give the default.
	From   Source
	Family family
	// Set sets a value; nil in GroupRefused.
	Set func(Arg) error

	words int  // of the value, if not 1. The user may also join two by "=", and Set gets all joined so
	block bool // may precede a later program of an MPMD job, too
}

// Name returns the first name.
func (o *Option) Name() string {
	name, _, _ := strings.Cut(o.Names, " ")
	return name
}

// AllNames returns each name.
func (o *Option) AllNames() []string { return strings.Split(o.Names, " ") }

func (o *Option) has(name string) bool {
	for own := range strings.SplitSeq(o.Names, " ") {
		if own == name {
			return true
		}
	}
	return false
}

// TakesValue reports whether the option is no flag.
func (o *Option) TakesValue() bool { return o.Value != "" }

func (o *Option) choices() []string {
	return slices.DeleteFunc(strings.Split(cmp.Or(o.Choices, o.Value), "|"), func(word string) bool {
		return word == "" || word[0] == '-' || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	})
}

func (o *Option) set(a Arg) error {
	a.choices = o.choices
	return o.Set(a)
}

// Refused reports whether the option is only known to be refused.
func (o *Option) Refused() bool { return o.Group == GroupRefused }

// Spelling returns a name with its dashes.
func Spelling(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// short returns the first one-letter name, or "".
func (o *Option) short() string {
	for name := range strings.SplitSeq(o.Names, " ") {
		if len(name) == 1 {
			return name
		}
	}
	return ""
}

// Variables returns the environment variables that give the default, the strongest first: GORUN_NPROC_PER_NODE,
// PET_NPROC_PER_NODE.
func (o *Option) Variables() []string {
	name := strings.ToUpper(strings.ReplaceAll(o.Name(), "-", "_"))
	switch {
	case o.From == varBoth:
		return []string{"GORUN_" + name, "PET_" + name}
	case o.From == varGorun && o.Group < numHelpGroups:
		return []string{"GORUN_" + name}
	}
	return nil
}
