package dialect

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/version"
	"gorun/launcher/job"
)

// around returns surroundings with some variables, given as NAME=VALUE, on a
// host called here.
func around(variables ...string) Surroundings {
	values := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return Surroundings{
		Lookup: func(name string) (string, bool) {
			value, given := values[name]
			return value, given
		},
		Names: func() []string { return slices.Sorted(maps.Keys(values)) },
		ReadFile: func(name string) ([]byte, error) {
			switch name {
			case "here.txt":
				return []byte("here slots=2 max-slots=4\nlocalhost slots=1\n"), nil
			case "train.py", "train":
				return []byte("import argparse\nparser.add_argument('--node_rank')\n"), nil
			case "main.py":
				return []byte("from local import main\n"), nil
			case "wrapper", "local/__init__.py":
				return []byte("#!/bin/sh\n"), nil
			case "there.txt":
				return []byte("here\nthere slots=x\n"), nil
			case "ranks.txt":
				return []byte("rank 0=here slot=0\nrank 1=here slot=1\n"), nil
			case "cluster.txt":
				return []byte("node[1-4] slots=2\n"), nil
			case "tune.conf":
				return []byte("# comment\npml = ob1\n-mca btl tcp,self -x A=1\n"), nil
			case "programs":
				return []byte("# two programs\n-n 1 ./a 'one word'\n\n-n 2 -env A 1 ./b \\\n  $HOME\n"), nil
			case "odd.txt":
				return []byte("here:2 binding=rr\n"), nil
			}
			return nil, fs.ErrNotExist
		},
		UID:        7,
		ReadToken:  tokenFile,
		IsThisHost: func(name string) bool { return name == "here" },
		LookPath: func(name string) (string, error) {
			if slices.Contains(variables, "PATH=") {
				return "", fs.ErrNotExist
			}
			return "/usr/bin/" + name, nil
		},
	}
}

// tokenFile is a file with a secret, owned by user 7.
func tokenFile(name string) (TokenFile, error) {
	file, found := map[string]TokenFile{
		"token": {Mode: 0o600, UID: 7}, "pod": {Mode: 0o440}, "open": {Mode: 0o644, UID: 7},
		"group": {Mode: 0o640, UID: 7}, "shared": {Mode: 0o660},
		"theirs": {Mode: 0o600, UID: 8}, "pipe": {Mode: fs.ModeNamedPipe | 0o600, UID: 7},
		"empty":                        {Mode: 0o600, UID: 7, Content: []byte(" \n")},
		"long":                         {Mode: 0o600, UID: 7, Content: []byte("two words")},
		"/home/me/.config/gorun/token": {Mode: 0o600, UID: 7, Content: []byte(otherToken)},
		"/conf/gorun/token":            {Mode: 0o600, UID: 7}, "/open/gorun/token": {Mode: 0o640, UID: 7},
	}[name]
	if !found {
		return file, fs.ErrNotExist
	}
	if file.Content == nil {
		file.Content = []byte(" " + fileToken + "\n")
	}
	return file, nil
}

// parse parses a command line that starts with the name, split at blanks.
func parse(line string, variables ...string) (Invocation, error) {
	words := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, Launch.Name+" "):
		words = append([]string{"torch.distributed.launch"}, words[2:]...)
	case strings.HasPrefix(line, Run.Name+" "):
		words = append([]string{Run.Name}, words[2:]...)
	}
	return Parse(words[0], words[1:], around(variables...))
}

func mustParse(t *testing.T, line string, variables ...string) Invocation {
	t.Helper()
	inv, err := parse(line, variables...)
	require.NoError(t, err)
	return inv
}

// problems returns the problems of a command line.
func problems(t *testing.T, line string, variables ...string) []string {
	t.Helper()
	_, err := parse(line, variables...)
	var usage *UsageError
	require.ErrorAs(t, err, &usage, line)
	require.NotNil(t, usage.Dialect)
	require.Equal(t, strings.Join(usage.Lines(), "\n"), usage.Error())
	return usage.Lines()
}

// TestPrinted: help, version and completion replace a job, even if other options are wrong.
func TestPrinted(t *testing.T) {
	for line, want := range map[string]string{
		"gorun --help":                     Gorun.Overview(nil),
		"gorun -h --bogus":                 Gorun.Overview(nil),
		"gorun --version --max-restarts 3": version.Line() + "\n",
		"gorun --print-completion fish":    Gorun.Completion("fish"),
		"gorun launch --help":              Launch.Help(nil),
		"torchrun --help":                  Torchrun.Help(nil),
		"torchrun --print_completion bash": Torchrun.Completion("bash"),
		"mpirun --version":                 Mpirun.versionText(),
	} {
		require.Equal(t, want, mustParse(t, line).Print(), line)
	}
}

// gorun passes the arguments after the program unchanged.
func TestProgramsArgumentsAreNeverTouched(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "4", "--nproc_per_node=2", "--"},
		{"--help"},
		{":", "x", ":"},
		{"a", ":", "--frobnicate", "-n", "2"},
		{":"},
		{":", "--", "-n", "2"},
		{"", " ", "\x00", "\xff"},
		{"-n4", ": ", ":-n"},
		{"--", "-n", "2"},
	} {
		inv, err := Parse("gorun", append([]string{"-n", "2", "x"}, args...), around())
		require.NoError(t, err)
		require.Equal(t, args, inv.Spec.Apps[0].Args)
	}
	inv := mustParse(t, "gorun -n 1 -- x a : -n 2 y")
	require.Equal(t, []job.App{{Program: "x", Args: []string{"a", ":", "-n", "2", "y"}, NumRanks: 1}}, inv.Spec.Apps,
		"after -- a colon is an argument")
	inv = mustParse(t, "torchrun x.py : -n 2 y.py")
	require.Equal(t, []string{":", "-n", "2", "y.py"}, inv.Spec.Apps[0].Args, "torchrun has no colon")
}

func TestUsageErrorUnwraps(t *testing.T) {
	_, err := parse("gorun --hostfile missing.txt x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	var usage *UsageError
	require.True(t, errors.As(err, &usage))
	require.Empty(t, usage.Hint(), "the help does not have that file")
}

// TestHints: errors about existing options suggest --help.
func TestHints(t *testing.T) {
	for line, want := range map[string]string{
		"mpirun -n 2":                  "run `mpirun --help`",
		"mpirun --nonsense x":          "run `mpirun --help`",
		"mpiexec -n 1 a : --nosense b": "run `mpiexec --help`",
		"gorun -np x y":                "",
		"mpirun -H a:x y":              "",
	} {
		_, err := parse(line)
		var usage *UsageError
		require.ErrorAs(t, err, &usage, line)
		require.Equal(t, want, usage.Hint(), line)
	}
}

// Two tokens for tests only.
const (
	fileToken  = "gorun1_bsvytpibgiqz7nt5gl44quew63zb26czjrgztibhef5ovd5yo2abdz2yee"
	otherToken = "gorun1_y4wuhfw55uoj425hj6zs33bhkfbfaxfp5imypuxo7vipmoc2mrpnpc7jui"
)

// TestInterface: an interface that is missing here may exist on other hosts, so gorun only prints a note.
func TestInterface(t *testing.T) {
	here := around()
	here.HasInterface = func(name string) bool { return name == "eth0" }
	for name, notes := range map[string][]string{
		"eth0": nil,
		"eth7": {"-iface eth7: this host has no network interface of that name; ip link lists them"},
	} {
		inv, err := Parse("mpiexec", []string{"-iface", name, "-n", "2", "x"}, here)
		require.NoError(t, err)
		require.Equal(t, notes, inv.Notes)
	}
}

func TestEmptyProgram(t *testing.T) {
	for _, args := range [][]string{{"-n", "2", ""}, {"", "x"}, {"--", ""}, {"-n", "1", "x", ":", "-n", "1", ""}} {
		_, err := Parse("gorun", args, around())
		require.EqualError(t, err, "empty program name: an unset variable?", "%q", args)
	}
}
