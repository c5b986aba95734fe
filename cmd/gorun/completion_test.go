package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
	"gorun/launcher/registry"
)

// shellSessions type the lines of $FILE into a shell. What gorun is started with goes to $OUT: one line per line.
var shellSessions = map[string]string{
	"bash": `bash --norc -i <$FILE`,
	"zsh": `zsh -f -c '
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "autoload -U compinit; compinit -u -D"
while IFS= read -r line; do zpty -w z $line; done <$FILE
while zpty -r z line; do :; done'`,
	// fish -c has no line to type into: complete prints the candidates.
	"fish": `fish --no-config -c '
gorun completion fish | source
grep -o "^gorun .*[^[:space:]]" $FILE | while read -l line
	string split " " -- $line | read -zl --list words
	set -e words[1] words[-1]
	printf "<%s>" $words (complete -C $line | string split -f 1 \t) >>$OUT
	echo >>$OUT
end'`,
}

// Each shell completes the last word of a line, and quotes it where it has to.
func TestShellsComplete(t *testing.T) {
	sshHome(t)
	place := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", place)
	answer := func(_ context.Context, _ registry.Request, send func(any) error) {
		_ = send(registry.Job{Program: "./trainer", NumRanks: 4})
	}
	entry, err := registry.Register([]string{place}, "7f3a0badcafe", func(string) {}, answer)
	require.NoError(t, err)
	defer entry.Close()
	dir := t.TempDir()
	for _, name := range []string{"train.py", "my file"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o755))
	rows := [][2]string{
		{"-H gat", "<-H><gate>"},
		{"-H a,gat", "<-H><a,gate>"},
		{"-H root@gat", "<-H><root@gate>"},
		{"--host=a,gat", "<--host=a,gate>"},
		{"--hostfile my", "<--hostfile><my file>"},
		{`--hostfile "my`, "<--hostfile><my file>"},
		{`--hostfile="my`, "<--hostfile=my file>"},
		{"--hostfile=tr", "<--hostfile=train.py>"},
		{"--log-dir lo", "<--log-dir><logs>"},
		{"./x trai", "<./x><train.py>"},
		{"--label=nev", "<--label=never>"},
		{"--offl", "<--offline>"},
		{"launc", "<launch>"},
		{"topo --example dgx-h1", "<topo><--example><dgx-h100>"},
		{"explain NCCL_DEBUG_S", "<explain><NCCL_DEBUG_SUBSYS>"},
		{"stop 7f3a0b", "<stop><7f3a0badcafe>"},
	}
	for shell, session := range shellSessions {
		t.Run(shell, func(t *testing.T) {
			testneeds.Program(t, testneeds.Layer(shell), shell)
			lines, out, want := "source <(gorun completion "+shell+")\n"+
				`gorun() { printf '<%s>' "$@" >>$OUT; echo >>$OUT; }`+"\n", filepath.Join(t.TempDir(), "out"), ""
			for _, row := range rows {
				lines += "gorun " + row[0] + "\t\n"
				want += row[1] + "\n"
			}
			file := filepath.Join(t.TempDir(), "lines")
			require.NoError(t, os.WriteFile(file, []byte(lines+"exit\n"), 0o644))
			cmd := exec.Command("sh", "-c", session)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "OUT="+out, "FILE="+file, "PS1=", "TERM=dumb")
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", said)
			got, err := os.ReadFile(out)
			require.NoError(t, err, "%s", said)
			require.Equal(t, want, strings.ReplaceAll(string(got), "/>", ">"), "%s", said) // zsh removes the slash
		})
	}
}

// sshHome makes a home directory with ssh's files, and returns that of ssh.
func sshHome(t *testing.T) (dir string) {
	t.Helper()
	home := filepath.Join(t.TempDir(), "no [pattern")
	t.Setenv("HOME", home)
	dir = filepath.Join(home, ".ssh")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "conf.d"), 0o755))
	for name, text := range map[string]string{
		"config":   "Host gate *.lan !no\nInclude conf.d/* config /dev/zero\nHost=\"equal\"\n  HostName other\n",
		"conf.d/a": "host inner\ninclude ~/.ssh/conf.d/a\n",
		"known_hosts": "node1,10.0.0.1 ssh-ed25519 AAAA\n[node2]:2222 ssh-ed25519 AAAA\n|1|a=|b= ssh-ed25519 AAAA\n" +
			"@revoked node3 ssh-ed25519 AAAA\n# node4 a\nnode5\n-x;$(id) ssh-ed25519 AAAA\na'b\tssh-ed25519 AAAA\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// wordsFor returns what gorun answers bash about a line, without hosts of this machine.
func wordsFor(t *testing.T, line string) string {
	t.Helper()
	words := ran(t, "gorun", "completion-words", "bash", ` "'@><=;|&(:`, line)
	return strings.ReplaceAll(strings.TrimSpace(words), "\n", "|")
}

func TestCompletedHosts(t *testing.T) {
	dir := sshHome(t)
	require.Equal(t, "words |node1|node2", wordsFor(t, "gorun -H node"))
	require.Equal(t, "words a,|a,equal", wordsFor(t, `FOO=1 gorun -H "a,eq`))
	require.Equal(t, "words |gate", wordsFor(t, "gorun doctor -H g"))
	require.Equal(t, "words |inner", wordsFor(t, "mpirun -host inn"))
	require.Equal(t, "words |10.0.0.1", wordsFor(t, "gorun hosts check -H 10"))
	require.Equal(t, "words", wordsFor(t, "gorun -H -x"))
	require.Equal(t, "words a'", wordsFor(t, `gorun -H a\'b@`)[:8], "what is typed may be anything")

	require.NoError(t, os.Remove(filepath.Join(dir, "config")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "config"), 0o644))
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, "big%d ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHeavyKeyHeavyKeyHeavyKeyHeavyKeyHeavyK\n", i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "known_hosts"), []byte(many.String()), 0o644))
	require.Equal(t, maxCandidates, strings.Count(wordsFor(t, "gorun -H big"), "|"))
	require.Equal(t, "words |big99999", wordsFor(t, "gorun -H big99999"))
	t.Setenv("HOME", "")
	require.Equal(t, "words", wordsFor(t, "gorun -H big"))
}

func TestCompletedWords(t *testing.T) {
	t.Setenv("GORUN_TEST_NAME", "1")
	for line, want := range map[string]string{
		"gorun -x GORUN_TEST_NA":     "words |GORUN_TEST_NAME",
		"gorun completion ":          "words |bash|zsh|fish",
		"gorun help plac":            "words |placement",
		"gorun help completio":       "words |completion",
		"gorun hosts ":               "words |check|quarantine",
		"gorun hosts check ":         "command",
		"gorun lint ":                "files",
		"gorun bench allr":           "words |allreduce",
		"gorun run launc":            "command",
		"gorun launch --use-e":       "words |--use-env",
		"gorun explain nccl-shm-f":   "command |nccl-shm-full",
		"gorun topo --example=dgx-a": "words --example=|dgx-a100",
		"gorun sbatch --nod":         "words |--nodes|--nodelist|--node-rank",
		"gorun sbatch ./x -":         "arguments 13",
		"gorun ./é x -":              "arguments 6",
		"gorun nosuch \"a b\" ":      "arguments 6",
		"gorun 'a":                   "command",
	} {
		require.Equal(t, want, wordsFor(t, line), line)
	}
	require.Equal(t, "words --label=\nnever\n", ran(t, "gorun", "completion-words", "zsh", "gorun", "--label=nev"))
	require.Equal(t, "words \n--offline\tact as --dry-run, and contact no host: what it has is unknown\n",
		ran(t, "gorun", "completion-words", "fish", "gorun", "--offl"))
}
