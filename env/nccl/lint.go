package nccl

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is the kind of a [Finding].
type Problem string

// Kinds of problems.
const (
	ProblemUnknown    Problem = "unknown"      // no library reads the name
	ProblemNever      Problem = "never"        // no library ever read the name; some texts recommend it
	ProblemDead       Problem = "dead"         // no current version reads it
	ProblemOldName    Problem = "old name"     // renamed
	ProblemVersion    Problem = "version"      // other versions read it, but not this one
	ProblemValue      Problem = "value"        // invalid value
	ProblemLegacy     Problem = "legacy"       // deprecated form of the value
	ProblemDefault    Problem = "default"      // value is the default
	ProblemDebugging  Problem = "debugging"    // for debugging alone
	ProblemCaution    Problem = "caution"      // usually harmful
	ProblemContradict Problem = "contradicts"  // conflicts with another setting
	ProblemPrefix     Problem = "prefix"       // value may match more than it names
	ProblemLocal      Problem = "not exported" // a script does not export it
	ProblemUnreadable Problem = "unreadable"   // configuration file that cannot be read
)

// Finding is a problem with one setting.
type Finding struct {
	Assignment
	Problem Problem `json:"problem"` // the kind of problem, such as "unknown" or "value"
	// Text is the problem, a sentence that follows "NAME=VALUE: ". Advice is the remedy; it is "" if Text
	// includes it.
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// Lint returns the problems of settings, in their order. library is the library that programs will load; the
// zero Found means unknown. Lint ignores variables that have nothing to do with NCCL.
func Lint(settings []Assignment, library Found) []Finding {
	l := linter{library: library, findings: make([][]Finding, len(settings))}
	for i, a := range settings {
		l.one(i, a)
	}
	l.combined(settings)
	return append([]Finding{}, slices.Concat(l.findings...)...)
}

// linter collects findings.
type linter struct {
	library  Found
	findings [][]Finding // by setting
	speller  *speller
}

func (l *linter) add(at int, a Assignment, problem Problem, text, advice string) {
	l.findings[at] = append(l.findings[at], Finding{a, problem, text, advice})
}

// one checks a setting by itself.
func (l *linter) one(at int, a Assignment) {
	if a.Kind == FromConf && l.untrimmed(at, a) {
		return
	}
	v, known := Lookup(a.Name)
	if !known || v.IsPattern() {
		l.unknown(at, a, known, v)
		return
	}
	if ours := v.Library == NCCL || v.Library == RCCL; ours && a.Unused && a.Kind == FromScript {
		l.add(at, a, ProblemLocal, "the script sets it and never exports it, so no program gets it",
			"Write export "+a.Name+"="+Shown(a.Value)+".")
	}
	switch {
	case !l.name(at, a, v):
	case a.Computed:
		l.caution(at, a, v, "")
	case a.Value == "":
	default:
		l.value(at, a, v)
	}
}

// untrimmed checks for quotes and blanks in configuration files, where the library takes them literally. It
// reports whether they change the name.
func (l *linter) untrimmed(at int, a Assignment) bool {
	name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(a.Name), "export "))
	value := strings.Trim(strings.TrimSpace(a.Value), `"'`)
	_, known := Lookup(name)
	switch {
	case known && name != a.Name:
		l.add(at, a, ProblemUnknown, "in such files the name includes blanks and words before it, so no library reads it",
			"Write "+name+"="+Shown(value)+".")
		return true
	case known && value != a.Value:
		l.add(at, a, ProblemValue, "in such files the value includes blanks and quotes", "Write "+name+"="+Shown(value)+
			".")
		return true
	}
	return false
}

// unknown checks a name that is not in the database, or matches only a pattern.
func (l *linter) unknown(at int, a Assignment, pattern bool, v Variable) {
	upper := strings.ToUpper(a.Name)
	ours := strings.HasPrefix(upper, "NCCL_") || strings.HasPrefix(upper, "RCCL_")
	switch {
	case l.library.Has(a.Name), a.Local:
		return
	case pattern && v.Library != PyTorch && v.Library != Gloo, !ours && !pattern &&
		!strings.HasPrefix(upper, "GLOO_") && !strings.HasPrefix(upper, "TORCH_NCCL_"):
		l.slip(at, a, pattern)
		return
	}
	if upper != a.Name {
		if _, found := Lookup(upper); found {
			l.add(at, a, ProblemUnknown, "names are in capital letters, so no library reads this one", "Write "+upper+".")
			return
		}
	}
	near := l.nearest(upper)
	if pattern && near == nil { // PyTorch may have a newer one
		return
	}
	text := "no library reads such a variable"
	if ours {
		text = "neither NCCL nor RCCL reads such a variable"
	}
	if l.library.Kind != "" {
		text += ", nor does the " + l.library.says() + " that would be loaded"
	}
	advice := ""
	if near != nil {
		advice = "Did you mean " + strings.Join(near, " or ") + "?"
	}
	l.add(at, a, ProblemUnknown, text, advice)
}

// slip checks for a misspelling of another library's variable, at most one letter off. More distant names may
// be valid: programs read names that the database lacks.
func (l *linter) slip(at int, a Assignment, pattern bool) {
	if meant := l.spelling().slip(a.Name, pattern); meant != "" {
		l.add(at, a, ProblemUnknown, "no library that gorun knows reads such a variable", "Did you mean "+meant+"?")
	}
}

// contract are variables of ranks that users set too, and that the database lacks.
var contract = [...]string{"MASTER_ADDR", "MASTER_PORT"}

// says returns the name and version, such as "NCCL 2.30.7".
func (f Found) says() string { return strings.TrimSpace(string(f.Kind) + " " + f.Version.String()) }

// nearest suggests names for an unknown one.
func (l *linter) nearest(name string) []string {
	if rest, ours := strings.CutPrefix(name, "RCCL_"); ours {
		if v, found := Lookup("NCCL_" + rest); found && v.Alive() && !v.IsPattern() {
			return []string{"NCCL_" + rest}
		}
	}
	return l.spelling().nearest(name)
}

// spelling returns the names that some library reads.
func (l *linter) spelling() *speller {
	if l.speller == nil {
		known := append(Names(), contract[:]...)
		for _, newer := range l.library.Names {
			if _, found := Lookup(newer); !found {
				known = append(known, newer)
			}
		}
		l.speller = newSpeller(known)
	}
	return l.speller
}

// Names returns the names of all variables that some library reads, without patterns, in the order of the
// data.
func Names() []string {
	var names []string
	for _, v := range database().variables {
		if v.Alive() && !v.IsPattern() {
			names = append(names, v.Name)
		}
	}
	return names
}

// name checks whether the library reads a variable. It reports whether to check the value.
func (l *linter) name(at int, a Assignment, v Variable) bool {
	switch {
	case v.Status == Never:
		l.add(at, a, ProblemNever, "no version of "+string(v.Library)+" ever read such a variable", v.Advice)
		return false
	case v.Status == Removed && !l.reads(v):
		l.add(at, a, ProblemDead, fmt.Sprintf("%s %s and newer do not read it", v.Library, v.Until), v.Advice)
		return false
	case v.Status == Removed:
		l.add(at, a, ProblemDead, fmt.Sprintf("this library still reads it, but %s %s and newer do not", v.Library, v.Until),
			v.Advice)
	case v.Status == Deprecated:
		l.add(at, a, ProblemOldName, v.Meaning, v.Advice)
	case l.library.Kind == NCCL && v.Library == RCCL:
		l.add(at, a, ProblemVersion, "only RCCL reads it, and the library is "+l.library.says(), "")
		return false
	case (v.Library == NCCL || v.Library == RCCL && l.library.Kind == RCCL) && !l.reads(v):
		l.add(at, a, ProblemVersion, l.tooOld(v), "")
		return false
	}
	return true
}

// reads reports whether the library reads a variable of NCCL or RCCL. An unknown library reads all current
// variables.
func (l *linter) reads(v Variable) bool {
	switch {
	case l.library.Kind == "" || v.Library != NCCL && v.Library != RCCL:
		return v.Alive()
	case len(l.library.Names) > 0:
		return l.library.Has(v.Name)
	case l.library.Kind == RCCL && v.Library == RCCL: // the data lacks RCCL's versions
		return v.Alive()
	}
	return v.In(l.library.Version)
}

// tooOld explains why the library does not read a variable.
func (l *linter) tooOld(v Variable) string {
	text := fmt.Sprintf("%s does not read it", l.library.says())
	if !v.Since.IsZero() && l.library.Version.Compare(v.Since) < 0 {
		text += fmt.Sprintf(": %s has it since %s", v.Library, v.Since)
	}
	return text
}

// value checks a value by itself.
func (l *linter) value(at int, a Assignment, v Variable) {
	if err := v.Syntax.Check(a.Value); err != nil {
		text, advice := "the value "+err.Error(), "It takes: "+v.Values+"."
		if strings.HasSuffix(text, v.Values) {
			advice = ""
		}
		if v.Others != "" {
			text += ": " + v.Others
		}
		l.add(at, a, ProblemValue, text, advice)
		return
	}
	value := a.Value
	if name, legacy := v.Syntax.LegacyLevel(value); legacy {
		advice := "Write " + name + ", or leave it out."
		l.add(at, a, ProblemLegacy, "the number is an old form of "+name+", and its meaning changed between versions",
			advice)
		value = name
	}
	if l.caution(at, a, v, value) || l.prefixes(at, a, v) || l.interfaces(at, a, v) {
		return
	}
	if a.Kind != FromConf && v.Library == NCCL && v.isDefault(a.Value) {
		l.add(at, a, ProblemDefault,
			"that is the default: it only overrides an administrator's nccl.conf", "Leave it out.")
	}
}

// caution adds the caution about a value. It reports whether there is one.
func (l *linter) caution(at int, a Assignment, v Variable, value string) bool {
	for _, c := range v.Cautions {
		if !c.Fits(value) || v.Name == "NCCL_IB_GID_INDEX" && l.needsIndex() {
			continue
		}
		problem, text := ProblemCaution, c.Text
		if c.Debugging {
			problem, text = ProblemDebugging, "only for debugging: "+c.Text
		}
		l.add(at, a, problem, strings.TrimSuffix(text, "."), "")
		return true
	}
	return false
}

// needsIndex reports whether the library cannot choose a RoCE address by itself.
func (l *linter) needsIndex() bool {
	return !l.library.Version.IsZero() && l.library.Version.Compare(Version{2, 21, 0}) < 0
}

// prefixes checks RDMA device names that also match longer names.
func (l *linter) prefixes(at int, a Assignment, v Variable) bool {
	list := strings.TrimPrefix(a.Value, "^")
	if v.Name != "NCCL_IB_HCA" || strings.HasPrefix(list, "=") {
		return false
	}
	for _, entry := range strings.Split(list, ",") {
		name, _, _ := strings.Cut(entry, ":")
		// a driver's name intentionally matches all of its devices
		if strings.TrimRight(name, "0123456789") == name || name == "mlx5" || name == "mlx4" {
			continue
		}
		if strings.HasSuffix(name, "_0") { // no number begins with 0
			continue
		}
		exact := "=" + list
		if list != a.Value {
			exact = "^" + exact
		}
		l.add(at, a, ProblemCaution,
			fmt.Sprintf("as a prefix, %s matches %s0 to %s9, too, and device names differ between hosts",
				name, name, name), "Write "+a.Name+"="+Shown(exact)+", or leave it out.")
		return true
	}
	return false
}

// interfaces checks network interface names that also match longer names. Only interfaces on top of eth0 begin
// with eth0, since the kernel writes no leading zeros.
func (l *linter) interfaces(at int, a Assignment, v Variable) bool {
	list := strings.TrimPrefix(a.Value, "^")
	if v.Syntax.kind != "prefixes" || strings.HasPrefix(list, "=") {
		return false
	}
	for _, name := range entriesOf(a.Value) {
		if last := name[len(name)-1]; last < '1' || last > '9' {
			continue
		}
		exact := strings.TrimSuffix(a.Value, list) + "=" + list
		l.add(at, a, ProblemPrefix,
			fmt.Sprintf("note: as a prefix, %s matches %s0 to %s9, too, if a host has them", name, name, name),
			"Write "+a.Name+"="+Shown(exact)+".")
		return true
	}
	return false
}

// IsDefault reports whether a value is the default of every version on every host. Conditional defaults such
// as "1 (0 in 2.26)" do not count, but a comment in brackets is allowed: "2 (where possible)".
func (v Variable) IsDefault(value string) bool {
	first, words, _ := strings.Cut(v.Default, " (")
	return !strings.Contains(first, " ") && !strings.ContainsAny(words, "0123456789") && v.isDefault(value)
}

// isDefault reports whether a value is the library's default.
func (v Variable) isDefault(value string) bool {
	first, _, _ := strings.Cut(v.Default, " ")
	first = strings.TrimRight(first, ";,")
	if v.Syntax.IsSwitch() && v.Default == "" {
		first = "0"
	}
	return v.Status == Live && strings.EqualFold(first, value)
}
