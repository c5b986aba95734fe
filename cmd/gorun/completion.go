package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env/nccl"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/doctor"
	"gorun/launcher/doctor/signature"
	"gorun/launcher/record"
	"gorun/launcher/registry"
)

func completionCommand(c *commandLine) *command {
	return &command{
		request: &wordRequest{
			commandLine: c, atLeast: 1, atMost: 1, choices: dialect.Shells,
			refusal: "gorun completion takes the name of a shell: bash, zsh or fish",
			act:     func(shell string) error { return c.print(dialect.Gorun.Completion(shell)) },
		},
		Command: cli.Command{
			Usage: "print a script that completes command lines in your shell",
			Description: "gorun completion prints a script for your shell. It completes commands and options, hosts of ssh, " +
				"running jobs, example machines, what gorun explain knows, and your program's command line.",
			UsageText: "gorun completion bash|zsh|fish",
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"source <(gorun completion bash)", "for this shell; put it into ~/.bashrc"},
				{"gorun completion zsh >~/.zfunc/_gorun", "for zsh, with ~/.zfunc in fpath"},
				{"gorun completion fish >~/.config/fish/completions/gorun.fish", "for fish"},
			},
			Codes: []dialect.Example{{"0", "the script was printed"}, {"2", "a mistake on the command line"}},
		},
	}
}

// wordsRequest prints for a completion script what may stand before the cursor. Its arguments are the shell and the
// words up to there; for bash, the characters at which it splits words, and the text of the line.
type wordsRequest struct {
	*commandLine
	shell, breaks string
	typed         typedLine
}

func wordsCommand(c *commandLine) *command {
	return &command{request: &wordsRequest{commandLine: c}, Command: cli.Command{Hidden: true}}
}

func (r *wordsRequest) check(words []string) {
	if len(words) < 3 {
		r.refuse("gorun completion-words is for the scripts of gorun completion")
		return
	}
	r.shell, r.typed.words = words[0], words[1:]
	if r.shell == "bash" {
		r.breaks, r.typed = words[1], splitLine(words[2])
	}
	if len(r.typed.words) < 2 {
		r.refuse("gorun completion-words: no word to complete")
	}
}

// maxCandidates bounds the words that a shell has to sort and show.
const maxCandidates = 2000

func (r *wordsRequest) run() error {
	words := r.typed.words
	e := expectedIn(words)
	word := strings.TrimPrefix(words[len(words)-1], e.Prefix)
	if e.Kind == "arguments" && r.shell == "bash" {
		e.Program = r.typed.starts[e.Program]
	}
	var out strings.Builder
	if fmt.Fprint(&out, e.Kind, " "); e.Kind == "arguments" {
		fmt.Fprint(&out, e.Program)
	} else {
		fmt.Fprint(&out, printable.Text(e.Prefix))
	}
	out.WriteByte('\n')
	n := 0
	for _, candidate := range e.Words {
		if n < maxCandidates && strings.HasPrefix(candidate.Word, word) && isPlain(candidate.Word) {
			n++
			out.WriteString(r.line(e.Prefix, candidate) + "\n")
		}
	}
	return r.print(out.String())
}

// isPlain reports whether a word means itself in every shell.
func isPlain(word string) bool {
	return word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+/=") == ""
}

// line returns a candidate as a script reads it.
func (r *wordsRequest) line(prefix string, c dialect.Candidate) string {
	help := printable.Text(c.Help)
	switch r.shell {
	case "zsh":
		return strings.TrimSuffix(c.Word+":"+help, ":")
	case "fish":
		return prefix + c.Word + "\t" + help
	}
	whole := prefix + c.Word
	if r.typed.quoted {
		return whole
	}
	begin := strings.LastIndexAny(prefix, r.breaks)
	if begin < 0 || prefix[begin] != '@' { // which begins a word, where others end one
		begin++
	}
	return whole[begin:]
}

// typedLine is a command line up to the cursor, as far as bash reads it without running anything.
type typedLine struct {
	words  []string
	starts []int // of the words, in characters of the line
	quoted bool  // the last word begins with a quote
}

// splitLine splits a command line of bash into words, without assignments before the command.
func splitLine(line string) (t typedLine) {
	var word []rune
	quote, escaped, begun, quoted := rune(0), false, false, false
	start := 0
	end := func() {
		name, _, isAssignment := strings.Cut(string(word), "=")
		if len(t.words) > 0 || !isAssignment || !isPlain(name) {
			t.words, t.starts, t.quoted = append(t.words, string(word)), append(t.starts, start), quoted
		}
		word, begun, quoted = nil, false, false
	}
	for i, c := range []rune(line) {
		blank := quote == 0 && !escaped && strings.ContainsRune(" \t\n", c)
		if !begun && !blank {
			begun, start, quoted = true, i, c == '\'' || c == '"'
		}
		switch {
		case escaped:
			word, escaped = append(word, c), false
		case c == '\\' && quote != '\'':
			escaped = true
		case blank && begun:
			end()
		case blank:
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == quote:
			quote = 0
		default:
			word = append(word, c)
		}
	}
	end()
	return t
}

// expectedIn tells what the last word of a command line may be, and knows the words of every kind.
func expectedIn(words []string) dialect.Expected {
	d, args := dialect.ByName(words[0]), words[1:]
	var cmd *command
	if e := findCommand(args[0]); d == dialect.Gorun && len(args) > 1 && e != nil {
		args = args[1:]
		switch e.name {
		case "launch":
			d = dialect.Launch
		case "run":
			d = dialect.Run
		default:
			cmd = e.manual()
		}
	}
	var e dialect.Expected
	if cmd != nil {
		e = dialect.ExpectedByCommand(&cmd.Command, cmd.programs, args)
	} else {
		e = d.Expects(args)
	}
	e.Program += len(words) - len(args)
	switch {
	case e.Kind == "command" && d == dialect.Gorun && len(words) == 2:
		for _, c := range publicCommands() {
			e.Words = append(e.Words, dialect.Candidate{Word: c.Name, Help: c.Usage})
		}
	case e.Kind == "hosts":
		e.Kind, e.Words = "words", named(sshHosts(strings.TrimPrefix(words[len(words)-1], e.Prefix)))
	case e.Kind == "variables":
		e.Kind, e.Words = "words", named(variableNames())
	case e.Kind == "operand":
		e.Kind, e.Words = operandsOf(cmd.Name, args)
	case cmd != nil && e.Option != nil && e.Option.Name() == "rank":
		e.Words = ranksOf(args)
	}
	return e
}

func named(words []string) []dialect.Candidate {
	list := make([]dialect.Candidate, len(words))
	for i, word := range words {
		list[i].Word = word
	}
	return list
}

// operandsOf returns what the arguments of a command may be.
func operandsOf(name string, args []string) (kind string, list []dialect.Candidate) {
	switch name {
	case "ps", "top", "stop", "stacks", "logs", "evidence", "report", "diff":
		for _, j := range describedJobs() {
			help := strings.TrimSpace(fmt.Sprintf("%s, %d ranks", filepath.Base(j.Program), j.NumRanks))
			list = append(list, dialect.Candidate{Word: j.ID, Help: help})
		}
		if slices.Contains([]string{"report", "logs", "diff", "evidence"}, name) {
			list = append(list, dialect.Candidate{Word: lastJob, Help: "the last one that has ended"})
			for _, rec := range record.List(recordsDir()) {
				if !rec.Running {
					list = append(list, dialect.Candidate{Word: rec.ID, Help: ending(rec)})
				}
			}
		}
	case "explain":
		return "command", explainable()
	case "help":
		for _, c := range publicCommands() {
			list = append(list, dialect.Candidate{Word: c.Name, Help: c.Usage})
		}
		list = append(list, named(dialect.Topics())...)
	case "completion":
		list = named(dialect.Shells)
	case "hosts":
		if len(args) > 1 {
			return "command", nil
		}
		list = named([]string{"check", "quarantine"})
	case "bench":
		list = named(benchOperations)
	case "lint":
		kind = "files"
	case "doctor":
		kind = "command"
	}
	return cmp.Or(kind, "words"), list
}

// explainable returns what gorun explain knows: variables, errors and checks.
func explainable() (list []dialect.Candidate) {
	for _, row := range plan.Table() {
		list = append(list, dialect.Candidate{Word: row.Name, Help: row.Reason})
	}
	for _, v := range nccl.Variables() {
		list = append(list, dialect.Candidate{Word: v.Name, Help: v.Meaning})
	}
	for _, s := range signature.All() {
		list = append(list, dialect.Candidate{Word: s.ID, Help: s.Means})
	}
	for _, c := range doctor.Checks() {
		list = append(list, dialect.Candidate{Word: c.ID, Help: c.What})
	}
	slices.SortStableFunc(list, func(a, b dialect.Candidate) int { return strings.Compare(a.Word, b.Word) })
	return slices.CompactFunc(list, func(a, b dialect.Candidate) bool { return a.Word == b.Word })
}

// describedJobs asks the running jobs of this user on this host for a description. One that does not answer at once
// has only its ID.
func describedJobs() (list []registry.Job) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	for _, h := range registry.Find(registryPlaces()) {
		j, _, _ := registry.Get[registry.Job](ctx, h, registry.Request{Kind: registry.JobRequest})
		j.ID = h.ID
		list = append(list, j)
	}
	return list
}

// ranksOf returns the ranks of the job that a command line names, or of the only one.
func ranksOf(args []string) (list []dialect.Candidate) {
	all := describedJobs()
	jobs := slices.DeleteFunc(slices.Clone(all), func(j registry.Job) bool {
		return !slices.ContainsFunc(args, func(word string) bool { return word != "" && strings.HasPrefix(j.ID, word) })
	})
	if len(jobs) == 0 {
		jobs = all
	}
	if len(jobs) == 1 {
		for rank := range min(jobs[0].NumRanks, maxCandidates) {
			list = append(list, dialect.Candidate{Word: strconv.Itoa(rank)})
		}
	}
	return list
}
