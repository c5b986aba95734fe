package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/doctor"
	"gorun/launcher/doctor/signature"
	"gorun/launcher/job"
	"gorun/launcher/record"
)

func TestExplain(t *testing.T) {
	for line, want := range map[string]explainOptions{
		"gorun explain job.log":           {words: []string{"job.log"}},
		"gorun explain -":                 {words: []string{"-"}},
		"gorun explain ibv_create_qp x":   {words: []string{"ibv_create_qp", "x"}},
		"gorun explain -- --weird text":   {words: []string{"--weird", "text"}},
		"gorun explain nccl --list":       {list: true, words: []string{"nccl"}},
		"gorun explain -9":                {words: []string{"-9"}},
		"gorun explain exitcode -9":       {words: []string{"exitcode", "-9"}},
		"gorun explain a --weird -x b":    {words: []string{"a", "--weird", "-x", "b"}},
		"gorun explain a -- --list":       {words: []string{"a", "--list"}},
		"gorun explain --list":            {list: true},
		"gorun explain --list nccl":       {list: true, words: []string{"nccl"}},
		"gorun explain [rank0]: : a : -n": {words: []string{"[rank0]:", ":", "a", ":", "-n"}},
	} {
		got := mustBe[*explainOptions](t, line)
		got.commandLine = nil
		require.Equal(t, want, *got, line)
	}
	require.True(t, mustBe[*explainOptions](t, "gorun explain --json 137").JSON)
	require.True(t, mustBe[*explainOptions](t, "gorun explain job.log --json").JSON)
	require.True(t, mustBe[*explainOptions](t, "gorun explain -11 --json").JSON)
}

func TestExplainProblems(t *testing.T) {
	_, err := parseWords([]string{"explain", ""}, aroundOf())
	require.ErrorContains(t, err, "the text to explain is empty: an unset variable?")
	requireProblems(t, map[string][]string{
		"gorun explain": {"nothing to explain: add a text in quotes, a file, or - for standard input; --list " +
			"lists what is known"},
		"gorun explain --list a b":  {"b: --list takes one family, such as nccl"},
		"gorun explain --svg x":     {"unknown option --svg"},
		"gorun explain --timeout 5": {"unknown option --timeout: gorun has it, gorun explain does not; call gorun for it"},
	})
}

// gorun explain knows every variable that gorun explain names.
func TestVariablesOfErrorsAreExplained(t *testing.T) {
	name := regexp.MustCompile(`\$?[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\b|\b(PYTHON|LD_)[A-Z_]+\b`)
	// noVariables are constants, errors and permissions, and prefixes of names.
	noVariables := []string{
		"SYS_NICE", "SYS_PTRACE", "IPC_LOCK", "MPI_COMM_WORLD", "MPI_ERRORS_ARE_FATAL", "MPI_ABORT", "MPI_INIT",
		"OMPI_MCA", "NCCL_SOCKET", "NCCL_IB", "OUT_OF_MEMORY", "ROW_REMAPPER", "LD_", "MPIEXEC_TIMEOUT",
	}
	counted := 0
	for _, s := range signature.All() {
		texts := append([]string{s.Cause, s.Check, s.Fix, s.Hint}, s.Variables...)
		for _, found := range name.FindAllString(strings.Join(texts, "\n"), -1) {
			switch {
			case slices.Contains(noVariables, found), strings.HasPrefix(found, "IBV_WC_"),
				strings.HasPrefix(found, "$SLURM_"), strings.HasPrefix(found, "MPI_ERR_"):
				continue
			}
			counted++
			require.True(t, isExplained(strings.TrimPrefix(found, "$")), "%s names %s", s.ID, found)
		}
	}
	require.Greater(t, counted, 100)
}

// tools are the commands besides gorun that hints may name. They belong to the shell, to the system, to NVIDIA and to
// resource managers.
var tools = strings.Fields(`apt-get cat cd chmod command compute-sanitizer df dmesg docker echo env ethtool ` +
	`export file findmnt fi_info ` +
	`for free getent grep head hostname ibstat ibv_devinfo id ip ipcs kill ldconfig ldd loginctl ls lscpu lsmod ` +
	`lspci make mlxlink modprobe munge nohup nvidia-smi ompi_info ping pip ps pwd py-spy python3 quota rdma rm ` +
	`rmmod rocm-smi rocminfo sacct sacctmgr salloc sbatch scontrol sed sha256sum sinfo sminfo smpquery sort squeue srun ` +
	`ss ssh ssh-add ssh-copy-id ssh-keygen ssh-keyscan sudo sysctl systemctl timedatectl tracepath ucx_info ` +
	`ulimit uname unset usermod GOARCH=arm64`)

// commandsIn returns the commands between marks in a text.
func commandsIn(text string) (commands []string) {
	for i, piece := range strings.Split(text, "`") {
		if i%2 == 1 {
			commands = append(commands, piece)
		}
	}
	return commands
}

// You can run each command that a signature suggests, with and without the texts of its examples.
func TestCommandsOfSignaturesWork(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range signature.All() {
		matches := []signature.Match{{Signature: &s}}
		for _, example := range s.Examples {
			m, _ := signature.Best(example)
			matches = append(matches, m)
		}
		for _, m := range matches {
			for _, text := range []string{s.Cause, s.Check, s.Fix, s.Hint} {
				for _, command := range commandsIn(m.Marked(text)) {
					if !seen[command] {
						seen[command] = true
						assert.NoError(t, canBeTyped(command), "%s: %s", s.ID, command)
					}
				}
			}
		}
	}
	require.Greater(t, len(seen), 100)
}

// Each check of gorun doctor that a signature names exists.
func TestSignaturesNameChecks(t *testing.T) {
	named := regexp.MustCompile("`gorun doctor[^`]*` also checks this \\(([a-z0-9, -]+)\\)[.]")
	count := 0
	for _, s := range signature.All() {
		matches := named.FindAllStringSubmatch(s.Check, -1)
		assert.Equal(t, strings.Count(s.Check, "gorun doctor"), len(matches), "%s: %s", s.ID, s.Check)
		for _, m := range matches {
			for id := range strings.SplitSeq(m[1], ", ") {
				_, ok := doctor.Find(id)
				assert.True(t, ok, "%s: %s", s.ID, id)
				count++
			}
		}
	}
	assert.Greater(t, count, 40)
}

var ofGorun = regexp.MustCompile(`^(\w+=\S+ )*gorun `)

// canBeTyped returns the reason if a shell or gorun would refuse a command.
func canBeTyped(command string) error {
	if strings.HasPrefix(command, "#SBATCH ") {
		words := append(strings.Fields("sbatch --dry-run "+command[len("#SBATCH "):]), "train.py")
		_, err := parseWords(words, surroundings())
		return err
	}
	if strings.HasPrefix(command, "-") {
		if err := parses("gorun " + command + " PROGRAM"); err == nil {
			return nil
		}
		return parses("gorun launch " + command + " train.py")
	}
	if ofGorun.MatchString(command) {
		return parses(command)
	}
	if out, err := exec.Command("bash", "-n", "-c", command).CombinedOutput(); err != nil {
		return &exec.Error{Name: string(out), Err: err}
	}
	if name := strings.TrimSuffix(strings.Fields(command)[0], ";"); !slices.Contains(tools, name) {
		return &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
	return nil
}

// parses splits a command line with a shell, and parses it with gorun.
func parses(command string) error {
	split := exec.Command("bash", "-c", `gorun() { printf '%s\0' "$@"; }`+"\n"+command)
	words, err := split.Output()
	if err != nil {
		return err
	}
	args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
	around := surroundings()
	around.ReadFile = func(name string) ([]byte, error) {
		if name == "FILE" || name == "hosts.txt" {
			return []byte("node1 slots=4\n"), nil
		}
		return nil, fs.ErrNotExist
	}
	around.ReadToken = func(string) (dialect.TokenFile, error) {
		return dialect.TokenFile{Content: []byte(job.Token{}.Text()), Mode: 0o600, UID: around.UID}, nil
	}
	_, err = parseWords(args, around)
	return err
}

func TestWrapCommands(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"a b c", 3, []string{"a b", "c"}},
		{"say `ls -l x` now", 6, []string{"say", "ls -l x", "now"}},
		{"toolongaword b", 4, []string{"toolongaword", "b"}},
		{"`a b`, c", 7, []string{"a b, c"}},
		{"", 4, []string{""}},
	} {
		assert.Equal(t, c.want, wrapCommands(c.text, c.width), c.text)
	}
}

func TestEvidenceDirs(t *testing.T) {
	state := filepath.Join(t.TempDir(), "no [pattern")
	t.Setenv("XDG_STATE_HOME", state)
	dir := filepath.Join(record.Dir(recordsDir(), "job"), "evidence-2")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.Equal(t, []string{dir}, evidenceDirs(record.Record{ID: "job"}))
}
