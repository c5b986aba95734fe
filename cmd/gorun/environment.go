package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gorun/cmd/gorun/internal/show"
	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/shellwords"
	"gorun/launcher/job"
)

// environment describes the variables of a job's ranks, each name once.
type environment struct {
	Ranks     int            `json:"world_size"`              // number of ranks
	Variables []envVariable  `json:"variables"`               // what ranks get, each name once
	Removed   []plan.Removal `json:"removed,omitempty"`       // inherited variables that ranks do not get
	Withheld  []string       `json:"withheld,omitempty"`      // inherited ones that other hosts do not get
	Conf      []confVariable `json:"configuration,omitempty"` // from configuration files, unless a variable sets them
	Left      []plan.Left    `json:"left_alone,omitempty"`    // settings that gorun would choose, but must not
	hosts     []string

	all, mpi bool   // list every variable that gorun knows, or also those for MPI
	more     string // the option that lists all
}

type envVariable struct {
	Name  string  `json:"name"`            // such as "MASTER_ADDR"
	Value *string `json:"value,omitempty"` // what all ranks have; absent if they differ
	// Values are those of each rank or host, if they differ; null for one without the variable.
	Values []*string   `json:"values,omitempty"`
	By     string      `json:"by,omitempty"`     // "rank" or "host"
	Origin plan.Origin `json:"origin"`           // "inherited", "-x" or "gorun"
	Reason string      `json:"reason,omitempty"` // a short clause, such as "ranks of this job"
	Level  plan.Level  `json:"level,omitempty"`  // how much one of gorun's matters
	// Meaning is from the database.
	Meaning string `json:"meaning,omitempty"`
	setting bool   // it is no identity of a rank
	mpi     bool   // it is for MPI libraries
	order   int    // in the table of variables
	secret  bool
}

// confVariable is a setting of a library's configuration file.
type confVariable struct {
	Name  string `json:"name"`  // such as "NCCL_DEBUG"
	Value string `json:"value"` // as the file gives it
	File  string `json:"file"`  // path of the configuration file
	Line  int    `json:"line"`  // counts from 1
	// Hosts whose file has this line, if the job has several hosts.
	Hosts []string `json:"hosts,omitempty"`
}

func newEnvironment(p *job.Plan, tune job.Tune) environment {
	e := environment{Ranks: len(p.Ranks), Removed: p.Removed, Withheld: p.Withheld, Left: p.Left}
	for _, v := range p.Common {
		value := v.Shown()
		e.add(v, envVariable{Value: &value})
	}
	e.hosts = p.Hosts()
	remote := slices.ContainsFunc(p.Nodes, func(n job.Node) bool { return n.Remote })
	nodes, ranks := environments(p)
	e.addEach("host", nodes)
	e.addEach("rank", ranks)
	for _, c := range p.Conf {
		e.Conf = append(e.Conf, confVariable{c.Name, c.Shown(), c.File, c.Line, e.hostNames(c.Nodes)})
	}
	if !remote && tune == job.TuneOff { // agents do not report configuration files then
		e.Conf = e.localConf()
	}
	return e
}

func (e *environment) hostNames(nodes []int) (names []string) {
	if len(e.hosts) == 1 {
		return nil
	}
	for _, n := range nodes {
		names = append(names, e.hosts[n])
	}
	return names
}

func (e *environment) add(v plan.Variable, with envVariable) {
	with.Name, with.Origin, with.Reason, with.Level = v.Name, v.Origin, v.Reason, v.Level
	if known, found := nccl.Lookup(v.Name); found {
		with.Meaning = known.Meaning
	}
	row, order := rowOf(v.Name)
	with.order = order
	with.setting, with.mpi, with.secret = row.Class == plan.ClassSetting, row.MPI, v.Shown() != v.Value
	e.Variables = append(e.Variables, with)
}

// addEach adds the variables that each host or rank has for itself.
func (e *environment) addEach(by string, each [][]plan.Variable) {
	index := make(map[string]int)
	for i, variables := range each {
		for _, v := range variables {
			k, known := index[v.Name]
			if !known {
				k = len(e.Variables)
				index[v.Name] = k
				e.add(v, envVariable{By: by, Values: make([]*string, len(each))})
			}
			value := v.Shown()
			e.Variables[k].Values[i] = &value
		}
	}
}

// rowOf returns the row of a variable, and its index; that of a variable that gorun does not know is a setting.
func rowOf(name string) (row plan.Row, index int) {
	rows := plan.Table()
	for i, row := range rows {
		prefix, pattern := strings.CutSuffix(row.Name, "*")
		if row.Name == name || pattern && strings.HasPrefix(name, prefix) {
			return row, i
		}
	}
	return plan.Row{Class: plan.ClassSetting}, len(rows)
}

// localConf reads the configuration files of this host.
func (e *environment) localConf() (list []confVariable) {
	set := make(map[string]bool)
	for _, v := range e.Variables {
		set[v.Name] = true
	}
	for s := range localSettings {
		if !set[s.Name] {
			set[s.Name] = true
			shown := plan.Variable{Name: s.Name, Value: s.Value}.Shown()
			list = append(list, confVariable{Name: s.Name, Value: shown, File: s.File, Line: s.Line})
		}
	}
	return list
}

// table lists settings, then the identity of ranks, wrapped to width unless that is 0.
func (e *environment) table(width int) string {
	rows := append([][]string{{"NAME", "VALUE", "WHY"}}, e.rows(true)...)
	for _, c := range e.Conf {
		from, why := c.File, "the library reads it there"
		if c.Hosts != nil {
			from += " of " + job.HostRanges(c.Hosts)
		}
		if slices.ContainsFunc(e.Left, func(l plan.Left) bool { return l.Name == c.Name }) {
			why += ", so gorun leaves it alone"
		}
		rows = append(rows, []string{c.Name, show.OrDash(c.Value), from + ": " + why})
	}
	for _, l := range e.Left {
		if !slices.ContainsFunc(e.Conf, func(c confVariable) bool { return c.Name == l.Name }) {
			rows = append(rows, []string{l.Name, "(left alone)", l.Reason})
		}
	}
	rows = append(rows, e.rows(false)...)
	for _, r := range e.Removed {
		rows = append(rows, []string{r.Name, "(removed)", r.Reason})
	}
	return show.Join("\n", show.Table(rows, width), e.footer(width))
}

// footer says what the table leaves out.
func (e *environment) footer(width int) (text string) {
	inherited, hidden := 0, 0
	for i := range e.Variables {
		switch v := &e.Variables[i]; {
		case v.isUnknown():
			inherited++
		case !e.shows(v):
			hidden++
		}
	}
	var lines []string
	if hidden > 0 {
		what := "for MPI, PyTorch's launcher and gorun itself"
		if e.mpi {
			what = "for PyTorch's launcher and gorun itself"
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s lists them.", show.Count(hidden, "more variable"), what, e.more))
	}
	if inherited > 0 {
		lines = append(lines, show.Count(inherited, "inherited variable")+", unchanged: --json lists them.")
	}
	if n := len(e.Withheld); n > 0 {
		lines = append(lines, show.Count(n, "inherited variable")+
			" for this host only: --json lists them as withheld, -x NAME sends one.")
	}
	for _, line := range lines {
		text += strings.Join(printable.Wrap(line, cmp.Or(width, math.MaxInt)), "\n") + "\n"
	}
	return text
}

// isUnknown reports whether a variable was inherited and means nothing to gorun or the database.
func (v *envVariable) isUnknown() bool {
	return v.Origin == plan.Inherited && v.Meaning == "" && v.setting
}

// shows reports whether the table lists a gorun variable: users seldom need those of other kinds of programs, and
// those that identify the ranks of PyTorch's launcher and gorun.
func (e *environment) shows(v *envVariable) bool {
	internal := !v.setting && (strings.HasPrefix(v.Name, "TORCHELASTIC_") || strings.HasPrefix(v.Name, "GORUN_"))
	return e.all || v.Origin != plan.Gorun || !internal && (e.mpi || !v.mpi)
}

// rows lists either the settings or the other variables.
func (e *environment) rows(settings bool) (rows [][]string) {
	for _, v := range slices.SortedStableFunc(slices.Values(e.Variables), func(a, b envVariable) int {
		return a.order - b.order
	}) {
		if v.setting == settings && !v.isUnknown() && e.shows(&v) {
			rows = append(rows, []string{v.Name, e.value(&v), v.explanation()})
		}
	}
	return rows
}

// explanation says why a variable is set and, where the user set it, what it means.
func (v *envVariable) explanation() string {
	switch {
	case v.Level != "" && v.Level != plan.Helps:
		return string(v.Level) + ": " + v.Reason
	case v.Level != "", v.Origin == plan.Gorun && v.Reason != "":
		return v.Reason
	case v.Origin == plan.Inherited:
		return show.Join(": ", string(v.Origin), cmp.Or(v.Meaning, v.Reason))
	case strings.HasPrefix(v.Reason, string(v.Origin)):
		return show.Join(": ", v.Reason, v.Meaning)
	}
	return show.Join(": ", string(v.Origin), v.Reason, v.Meaning)
}

// value formats the values of a variable; consecutive numbers are "0..3".
func (e *environment) value(v *envVariable) string {
	const maxWidth = 60 // of several values
	if v.Value != nil {
		return show.OrDash(*v.Value)
	}
	texts := make([]string, len(v.Values))
	for i, value := range v.Values {
		texts[i] = "-"
		if value != nil {
			texts[i] = show.OrDash(*value)
		}
	}
	if merged := mergeValues(texts); merged != "" {
		return merged
	}
	if v.By == "host" && len(texts) <= maxValues {
		for i := range texts {
			texts[i] = e.hosts[i] + ":" + texts[i]
		}
	}
	if len(texts) > maxValues {
		texts = append(texts[:maxValues], "…")
	}
	if joined := strings.Join(texts, " "); len(joined) <= maxWidth {
		return joined
	}
	return texts[0] + " …"
}

// maxValues is the number of ranks or hosts whose values a row shows.
const maxValues = 4

// mergeValues formats equal values as one, consecutive numbers as "0..3", and others as "".
func mergeValues(texts []string) string {
	first, last := texts[0], texts[len(texts)-1]
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		return first
	}
	begin, err := strconv.Atoi(first)
	for i, text := range texts {
		if err != nil || text != strconv.Itoa(begin+i) {
			return ""
		}
	}
	return first + ".." + last
}

// shell formats what gorun or the command line adds as commands of a shell. A comment replaces what a shell cannot set.
func (e *environment) shell() string {
	var b strings.Builder
	for _, v := range e.Variables {
		switch {
		case !v.setting || v.Origin == plan.Inherited:
		case !isShellName(v.Name):
			fmt.Fprintf(&b, "# %s is no name for a shell\n", printable.Text(v.Name))
		case v.secret:
			fmt.Fprintf(&b, "# %s looks like a secret: set it yourself\n", v.Name)
		case v.Value == nil:
			fmt.Fprintf(&b, "# %s differs between %ss\n", v.Name, v.By)
		case *v.Value == job.AtStart:
			fmt.Fprintf(&b, "# %s is known when a job starts\n", v.Name)
		default:
			fmt.Fprintf(&b, "export %s=%s\n", v.Name, shellwords.QuotePOSIX(*v.Value))
		}
	}
	return b.String()
}

func isShellName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	return name != "" && (name[0] < '0' || name[0] > '9') && strings.Trim(name, letters) == ""
}
