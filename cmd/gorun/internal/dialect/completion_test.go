package dialect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"gorun/internal/testneeds"
)

// The script of gorun completes each of the two names with its own options.
func TestBashCompletesTorchrunToo(t *testing.T) {
	got := askBash(t, Gorun, "torchrun", "--n")
	require.Contains(t, got, "--nproc-per-node")
	require.NotContains(t, got, "--np")
	require.Contains(t, askBash(t, Gorun, "gorun", "--n"), "--np")
}

// zsh completes the typed command, under whatever name it loaded the script.
func TestZshChoosesByName(t *testing.T) {
	zsh := testneeds.Program(t, "zsh", "zsh")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "_gorun"), []byte(Gorun.Completion("zsh", nil)), 0o644))
	for _, name := range []string{"gorun", "torchrun"} {
		cmd := exec.Command(zsh, "-f", "-c", `
compdef() { print -- $@ }
_arguments() { print -- $service $* }
fpath=($1); autoload -U _gorun; service=$2
_gorun`, "zsh", dir, name)
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		want := "_gorun gorun\n_torchrun torchrun\n" + name + " "
		require.True(t, strings.HasPrefix(string(output), want), "%s", output)
		require.Equal(t, name == "gorun", strings.Contains(string(output), "--tag-output"), "%s", output)
	}
}

// askBash makes bash complete a command line, given as the words of readline, which splits at "=" and ":". The last
// word is the one to complete.
func askBash(t *testing.T, d *Dialect, words ...string) []string {
	t.Helper()
	bash := testneeds.Program(t, "bash", "bash")
	dir := t.TempDir()
	for _, name := range []string{"train.py", "my trainer"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o755))
	script := d.Completion("bash", testCommands()) + `
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
` + completion{command: words[0]}.function() + `
printf '%s\n' "${COMPREPLY[@]}"
`
	cmd := exec.Command(bash, append([]string{"--norc", "--noprofile", "-c", script, "bash"}, words...)...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
}

// Only gorun has commands.
func TestCompletionOfCommands(t *testing.T) {
	for _, d := range dialects {
		require.Equal(t, d == Gorun, d.Completion("bash", testCommands()) != d.Completion("bash", nil), d.Name)
	}
}

// testCommands are three commands of gorun.
func testCommands() []*cli.Command {
	topo := []*Option{{Names: []string{"from"}, Value: "DIR", Dirs: true}, {Names: []string{"svg"}, Value: "FILE"}}
	store := []*Option{{Names: []string{"listen"}, Value: "ADDR"}, {Names: []string{"max-memory"}, Value: "SIZE"}}
	return []*cli.Command{
		{Name: "launch"},
		{Name: "topo", Flags: new(Line).Flags(topo...)},
		{Name: "store", Flags: new(Line).Flags(store...)},
	}
}

func TestBashCompletion(t *testing.T) {
	for name, row := range map[string]struct{ words, has, hasNot []string }{
		"options": {[]string{"gorun", "--nproc"}, []string{"--nproc-per-node"}, []string{"--np"}},
		"all options": {
			[]string{"gorun", "-"},
			[]string{"-n", "--np", "--tee", "-t", "--help"},
			[]string{"--mca", "--nproc_per_node", "train.py"},
		},
		"after an option":      {[]string{"gorun", "-n", "4", "--gr"}, []string{"--grace"}, []string{"--np"}},
		"values":               {[]string{"gorun", "--label", "a"}, []string{"auto", "always"}, []string{"never"}},
		"values behind =":      {[]string{"gorun", "--label", "=", "n"}, []string{"never"}, []string{"auto"}},
		"values just behind =": {[]string{"gorun", "--label", "="}, []string{"never", "auto"}, []string{"train.py"}},
		"values of twins":      {[]string{"gorun", "--nproc_per_node", ""}, []string{"gpu", "auto", "cpu"}, nil},
		"directories":          {[]string{"gorun", "--log-dir", ""}, []string{"logs"}, []string{"train.py"}},
		"files":                {[]string{"gorun", "--hostfile", "tr"}, []string{"train.py"}, []string{"true"}},
		"program":              {[]string{"gorun", "-n", "4", "tr"}, []string{"train.py", "true"}, []string{"logs"}},
		"program with a blank": {[]string{"gorun", "my"}, []string{"my trainer"}, nil},
		"commands":             {[]string{"gorun", "la"}, []string{"launch"}, nil},
		"options of a command": {[]string{"gorun", "topo", "--"}, []string{"--from", "--svg"}, []string{"--tee"}},
		"options of another": {
			[]string{"gorun", "store", "--"}, []string{"--listen", "--max-memory"}, []string{"--np", "--svg"},
		},
		"folders of a command": {[]string{"gorun", "topo", "--from", ""}, []string{"logs"}, []string{"train.py"}},
		"files of a command":   {[]string{"gorun", "topo", "--svg", "tr"}, []string{"train.py"}, []string{"true"}},
		"commands come first":  {[]string{"gorun", "-q", "lau"}, nil, []string{"launch"}},
		"the program's own":    {[]string{"gorun", "-n", "4", "./x", "--nproc"}, nil, []string{"--nproc-per-node"}},
		"its files":            {[]string{"gorun", "-n", "4", "./x", "tr"}, []string{"train.py"}, nil},
		"behind --":            {[]string{"gorun", "--", "x", "--nproc"}, nil, []string{"--nproc-per-node"}},
		"glued values":         {[]string{"gorun", "--timeout", "=", "5", "--nproc"}, []string{"--nproc-per-node"}, nil},
		"torchrun":             {[]string{"torchrun", "--n"}, []string{"--nproc-per-node", "--nnodes"}, []string{"--np"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := askBash(t, ByName(row.words[0]), row.words...)
			for _, w := range row.has {
				require.Contains(t, got, w)
			}
			for _, w := range row.hasNot {
				require.NotContains(t, got, w)
			}
		})
	}
}

// Each script is valid in its shell, and offers the options in the help.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range Shells {
		for _, d := range []*Dialect{Gorun, Torchrun, Launch} {
			script := d.Completion(shell, nil)
			for o := range d.Options {
				long := strings.TrimLeft(o.shown()[len(o.shown())-1], "-")
				require.Equal(t, o.Group < numHelpGroups, offers(script, shell, long), "%s %s: %s", shell, d.Name, long)
			}
			t.Run(shell+" "+d.Name, func(t *testing.T) {
				program := testneeds.Program(t, testneeds.Layer(shell), shell)
				cmd := exec.Command(program, "-n")
				cmd.Stdin = strings.NewReader(script)
				output, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", output)
				require.Empty(t, string(output))
			})
		}
	}
}

// offers reports whether a script completes an option.
func offers(script, shell, name string) bool {
	spelled := Spelling(name)
	switch shell {
	case "zsh":
		return strings.Contains(script, ")"+spelled+"[")
	case "fish":
		return strings.Contains(script, " -l "+name+" ") || strings.Contains(script, " -s "+name+" ")
	}
	_, list, _ := strings.Cut(script, "compgen -W '-")
	list, _, _ = strings.Cut(list, "'")
	return strings.Contains(" -"+list+" ", " "+spelled+" ")
}
