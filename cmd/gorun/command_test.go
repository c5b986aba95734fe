package main

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env/plan"
	"gorun/internal/testneeds"
	"gorun/launcher/job"
)

// aroundOf returns surroundings with variables, given as NAME=VALUE, on a host called here.
func aroundOf(variables ...string) dialect.Surroundings {
	values := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return dialect.Surroundings{
		Lookup: func(name string) (string, bool) {
			value, given := values[name]
			return value, given
		},
		Names: func() []string { return slices.Sorted(maps.Keys(values)) },
		ReadFile: func(name string) ([]byte, error) {
			switch name {
			case "ranks.txt":
				return []byte("rank 0=here slot=0\nrank 1=here slot=1\n"), nil
			case "odd.txt":
				return []byte("here:2 binding=rr\n"), nil
			}
			return nil, fs.ErrNotExist
		},
		ReadToken:  func(string) (dialect.TokenFile, error) { return dialect.TokenFile{}, fs.ErrNotExist },
		IsThisHost: func(name string) bool { return name == "here" },
		LookPath: func(name string) (string, error) {
			if slices.Contains(variables, "PATH=") {
				return "", fs.ErrNotExist
			}
			return "/usr/bin/" + name, nil
		},
		Commands: publicCommands,
	}
}

// parseWords parses the command line of a command or of a job, without running it.
func parseWords(words []string, around dialect.Surroundings) (request, error) {
	e, name := findCommand(words[0]), "gorun"
	if e != nil && e.name == "launch" {
		e, name, words = nil, "torch.distributed.launch", words[1:]
	} else if e != nil && e.name == "run" {
		e, name, words = nil, dialect.Run.Name, words[1:]
	}
	if e == nil {
		_, err := dialect.Parse(name, words, around)
		return nil, err
	}
	c := newCommandLine(around, words[1:], nil, nil)
	cmd := c.build(*e)
	err := c.parse(cmd, func() error { return nil })
	return cmd.request, err
}

// parsed parses the command line of a command, split at blanks.
func parsed[R request](line string, variables ...string) (R, error) {
	r, err := parseWords(strings.Fields(line)[1:], aroundOf(variables...))
	return r.(R), err
}

// mustBe parses a valid command line.
func mustBe[R request](t *testing.T, line string, variables ...string) R {
	t.Helper()
	r, err := parsed[R](line, variables...)
	require.NoError(t, err, line)
	return r
}

// problems returns the problems of a command line.
func problems(t *testing.T, line string, variables ...string) []string {
	t.Helper()
	_, err := parsed[request](line, variables...)
	var usage *dialect.UsageError
	require.ErrorAs(t, err, &usage, line)
	return usage.Lines()
}

// requireProblems compares the problems of command lines.
func requireProblems(t *testing.T, lines map[string][]string) {
	t.Helper()
	for line, want := range lines {
		t.Run(line, func(t *testing.T) { require.Equal(t, want, problems(t, line)) })
	}
}

// Only the first word can be a command. Programs may have the same names.
func TestCommandsAreOnlyTheFirstWord(t *testing.T) {
	for _, e := range commandList() {
		for _, before := range []string{"gorun -n 2 ", "gorun -n2 -- ", "mpirun -n 2 "} {
			line := before + e.name + " -f"
			words := strings.Fields(line)
			got, err := dialect.Parse(words[0], words[1:], aroundOf())
			require.NoError(t, err)
			require.Equal(t, job.App{Program: e.name, Args: []string{"-f"}, NumRanks: 2}, got.Spec.Apps[0], line)
		}
		require.Nil(t, findCommand("./"+e.name))
		got, err := dialect.Parse("gorun", []string{"./" + e.name}, aroundOf())
		require.NoError(t, err)
		require.Equal(t, "./"+e.name, got.Spec.Apps[0].Program)
	}
}

// Commands that take one word refuse other words, and options.
func TestWordsOfCommands(t *testing.T) {
	for line, want := range map[string]string{
		"gorun help":                "",
		"gorun help hosts":          "",
		"gorun help launch":         "",
		"gorun help me":             "help: me: no such topic or command",
		"gorun help --bogus":        "unknown option --bogus",
		"gorun completion zsh":      "",
		"gorun completion":          "gorun completion takes the name of a shell: bash, zsh or fish",
		"gorun completion tcsh":     "gorun completion takes the name of a shell: bash, zsh or fish",
		"gorun completion bash zsh": "gorun completion takes the name of a shell: bash, zsh or fish",
		"gorun version x":           "x: gorun version takes no arguments; gorun ./version starts a program of that name",
		"gorun agent a b":           "gorun agent is what gorun starts on other hosts; ",
		"gorun bench-rank":          "gorun bench-rank is what gorun bench starts; ",
		"gorun bench-rank {} -v":    "gorun bench-rank is what gorun bench starts; ",
	} {
		if want == "" {
			mustBe[request](t, line)
			continue
		}
		refused := problems(t, line)
		require.Len(t, refused, 1, line)
		require.True(t, strings.HasPrefix(refused[0], want), "%s: %s", line, refused[0])
	}
	help := mustBe[*helpRequest](t, "gorun help launch")
	require.Equal(t, dialect.Launch.Help(nil), help.page)
}

// eachCommand visits the commands that have options.
func eachCommand(t *testing.T, look func(t *testing.T, cmd *command)) {
	for _, e := range commandList() {
		if cmd := newCommandLine(aroundOf(), nil, nil, nil).build(e); !cmd.Hidden && cmd.request != nil {
			t.Run(e.name, func(t *testing.T) { look(t, cmd) })
		}
	}
}

// eachOption visits the options of those commands. If taken is true, the option belongs to a job; help is excluded.
func eachOption(t *testing.T, look func(t *testing.T, cmd *command, o *option, taken bool)) {
	eachCommand(t, func(t *testing.T, cmd *command) {
		for _, f := range cmd.Flags {
			look(t, cmd, f.(*dialect.Flag).Option, f.(*dialect.Flag).Hidden)
		}
	})
}

func TestHelpOfCommands(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *command) {
		if cmd.Description == "" {
			return // gorun help, version, completion
		}
		help := cmd.help()
		for line := range strings.Lines(help) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80+2*strings.Count(line, "…"), line)
			require.Equal(t, strings.TrimRight(line, " \n"), strings.TrimSuffix(line, "\n"), "no blanks at the end")
		}
		for _, f := range cmd.Flags {
			f := f.(*dialect.Flag)
			if cmd.Name == "sbatch" && f.Hidden {
				continue // Slurm's options take precedence
			}
			shown := strings.Contains(help, "\n  "+f.Usage()+"\n") || strings.Contains(help, "\n  "+f.Usage()+" ")
			require.Equal(t, f.Group < dialect.GroupMPI && !f.Hidden, shown, f.Usage())
		}
		require.Less(t, strings.Index(help, "Examples:"), strings.Index(help, "  -h, --help"))
		require.Less(t, strings.Index(help, "--version"), strings.Index(help, "Exit codes:"))
		require.Contains(t, dialect.Gorun.Help(publicCommands()), "\n  "+cmd.Name+" ")
		require.NotEmpty(t, cmd.Usage)
		require.True(t, parsedLine(t, "gorun "+cmd.Name+" --help").HelpRequested())
	})
	require.NotContains(t, dialect.Gorun.Help(publicCommands()), "agent  ", "it is gorun's own")
}

// Help on a command is one page, whichever way you ask for it.
func TestWaysToHelp(t *testing.T) {
	for _, name := range append(commandNames(), "hosts check") {
		words := strings.Fields(name)
		page := helpPage(words)
		require.NotEmpty(t, page, name)
		for _, args := range [][]string{
			append([]string{"--help"}, words...), append([]string{"-h"}, words...), append(slices.Clone(words), "--help"),
			append(slices.Clone(words), "-h"),
		} {
			asked, ok := helpWords(args)
			require.True(t, ok, args)
			require.Equal(t, page, helpPage(asked), args)
		}
	}
	for _, line := range []string{"", "--help", "--help ./ps", "mpi --help", "--help agent", "x ps --help"} {
		_, ok := helpWords(strings.Fields(line))
		require.False(t, ok, line)
	}
}

// parsedLine is a command line that was parsed.
func parsedLine(t *testing.T, line string) *commandLine {
	t.Helper()
	words := strings.Fields(line)
	c := newCommandLine(aroundOf(), words[2:], nil, nil)
	require.NoError(t, c.parse(c.build(*findCommand(words[1])), func() error { return nil }))
	return c
}

func TestOptionsOfCommandsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	eachOption(t, func(t *testing.T, cmd *command, o *option, taken bool) {
		require.NotEmpty(t, o.Help, o.Name())
		require.NotRegexp(t, `\.$|^([A-RT-Z]|S[^l])[a-z]|\n|  `, o.Help, "%s: one phrase without a full stop", o.Name())
		require.Equal(t, o.Set == nil, o.Refused(), o.Name())
		if o.Group < dialect.GroupAccepted {
			require.LessOrEqual(t, len(o.Help), 70, o.Name())
			require.NotRegexp(t, `default:|^(a|an|the|of|so) `, o.Help, "%s: begin with a verb, (DEFAULT) last", o.Name())
		}
		for _, n := range o.AllNames() {
			slurms := cmd.Name == "sbatch" && taken // Slurm's options take precedence
			require.False(t, seen[cmd.Name+" "+n] && !slurms, "%s names two options", n)
			require.Regexp(t, `^[A-Za-z][a-z0-9]*(-[a-z0-9]+)*$`, n)
			seen[cmd.Name+" "+n] = true
		}
		if !o.TakesValue() {
			require.Empty(t, o.Choices, o.Name())
			require.False(t, o.Attached || o.Dirs, o.Name())
		}
	})
}

// The variables of a family's options must not depend on the order of rows. env and topo, and the nccl-tests names
// of gorun bench, have separate rows with the same values. Options of Slurm in gorun sbatch differ.
func TestNamesOfCommandsMeanOneThing(t *testing.T) {
	jobs := map[string]*option{}
	for o := range dialect.Gorun.Options {
		jobs[o.Name()] = o
	}
	eachOption(t, func(t *testing.T, cmd *command, o *option, _ bool) {
		if other, ok := jobs[o.Name()]; ok && !slices.Contains([]string{"N", "s", "debug", "tune"}, o.Name()) {
			require.True(t, cmd.Name == "sbatch" || other.TakesValue() == o.TakesValue(), o.Name())
		}
	})
}

// A gorun that a rank starts must not read the rank's variables as options of the user.
func TestNoRankGetsACommandsVariable(t *testing.T) {
	forRanks := map[string]bool{}
	for _, row := range plan.Table() {
		forRanks[row.Name] = row.Class != plan.ClassLauncher
	}
	require.True(t, forRanks["GORUN_JOB"])
	eachOption(t, func(t *testing.T, _ *command, o *option, _ bool) {
		for _, v := range o.Variables() {
			require.False(t, forRanks[v], v)
		}
	})
}

// You can paste every hint: it has the given value instead of a placeholder.
func TestRefusalsOfCommandsHaveTheValue(t *testing.T) {
	refused := 0
	eachOption(t, func(t *testing.T, cmd *command, o *option, taken bool) {
		if !o.Refused() || !o.TakesValue() || taken {
			return
		}
		refused++
		hint := strings.Join(problems(t, "gorun "+cmd.Name+" "+dialect.Spelling(o.Name())+" v0 x"), "\n")
		require.NotRegexp(t, `\b`+o.Value+`\b`, hint)
		require.Equal(t, regexp.MustCompile(`\b`+o.Value+`\b`).MatchString(o.Help), strings.Count(hint, "v0") > 1, hint)
	})
	require.NotZero(t, refused)
}

// You can run every command line in the help.
func TestExamplesOfCommands(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *command) {
		for _, e := range cmd.Examples {
			line, _, _ := strings.Cut(strings.TrimSuffix(e[0], " …"), ", ")
			if !strings.HasPrefix(line, "gorun "+cmd.Name+" ") && line != "gorun "+cmd.Name {
				continue // belongs to a job, or is a program of that name
			}
			split := exec.Command("bash", "-c", `gorun() { printf '%s\0' "$@"; }`+"\n"+strings.ReplaceAll(line, ">", " #"))
			words, err := split.Output()
			require.NoError(t, err)
			args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
			_, err = parseWords(args, aroundOf("HOME=/home/me"))
			require.NoError(t, err, line)
		}
	})
}

//go:generate go test -run ^TestDocs -count=1 . -update

// TestDocs keeps docs/reference/options.md equal to the tables.
func TestDocs(t *testing.T) {
	page := filepath.Join(testneeds.Repository(t), "docs", "reference", "options.md")
	text := dialect.Markdown(publicCommands())
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, text, string(written), "docs/reference/options.md is stale: make docs")
	eachOption(t, func(t *testing.T, cmd *command, o *option, taken bool) {
		if cmd.Name == "token" || taken {
			return // docs/hosts.md describes them; the others belong to a job
		}
		for _, n := range o.AllNames() {
			require.True(t, strings.Contains(text, "`"+dialect.Spelling(n)), n)
		}
		for _, v := range o.Variables() {
			require.True(t, strings.Contains(text, "`"+v+"`"), v)
		}
	})
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `| <a id="-`) {
			require.Equal(t, 5, strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"), line)
		}
	}
}
