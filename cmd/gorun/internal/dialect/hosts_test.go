package dialect

import (
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/shellwords"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// TestProgramsWithHostFiles: each program may have its own host file, and -H selects hosts from it. A host file
// before the first program belongs to that program.
func TestProgramsWithHostFiles(t *testing.T) {
	files := map[string]string{
		"f1": "a slots=2\nb slots=4\n", "f2": "b slots=3\nc max_slots=2\n",
		"open": "a\nd slots=2\n",
	}
	here := around()
	here.ReadFile = func(name string) ([]byte, error) {
		text, found := files[name]
		if !found {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	for line, want := range map[string][]string{
		"mpirun -n 1 --hostfile f1 x : -n 1 --hostfile f2 y":      {"a:2 b:4 c:2", "a:2 b:4", "b:3 c:2"},
		"mpiexec -n 1 -f f1 x : -n 1 -f f2 y":                     {"a:2 b:4 c:2", "a:2 b:4", "b:3 c:2"},
		"mpirun -n 1 --hostfile f1 -H b x : -n 1 -machine ./f1 y": nil,
		"mpirun -n 1 --hostfile f1 -H b x : -n 1 -hostfile f2 y":  {"b:4 c:2", "b:4", "b:3 c:2"},
		"mpirun -n 1 -H d,d x : -n 1 -hostfile f1 y : -n 1 z":     {"d:2 a:2 b:4", "d:2", "a:2 b:4", ""},
		"mpirun -n 1 -H b x : -n 1 -hostfile f1 y : -n 1 -H b z":  {"b:4 a:2", "b", "a:2 b:4", "b"},
		"gorun -n 1 --hostfile f1 x : -n 1 y":                     {"a:2 b:4", "", ""},
		"gorun -n 1 x : -n 1 --hostfile open y":                   {"a d:2", "", "a d:2"},
		"mpirun -n 1 x : -n 1 --hostfile open y":                  {"a:* d:2", "", "a d:2"},
		"mpirun --hostfile open y":                                {"a:* d:2", ""},
	} {
		words := strings.Fields(line)
		inv, err := Parse(words[0], words[1:], here)
		if want == nil {
			require.ErrorContains(t, err, "-machine ./f1: file does not exist", line)
			continue
		}
		require.NoError(t, err, line)
		got := []string{listed(inv.Spec.Hosts)}
		for _, app := range inv.Spec.Apps {
			got = append(got, listed(app.Hosts))
		}
		require.Equal(t, want, got, line)
		require.Equal(t, job.CountUnset, inv.Spec.PerNode.Kind, line)
	}
}

// listed formats hosts for -H, and marks this host with a star.
func listed(all []hosts.Host) string {
	words := make([]string, len(all))
	for i, h := range all {
		words[i] = h.Name
		if h.CoreSlots {
			words[i] += ":*"
		}
		if h.Slots > 0 {
			words[i] += ":" + strconv.Itoa(h.Slots)
		}
		if h.Here {
			words[i] += "*"
		}
	}
	return strings.Join(words, " ")
}

func TestMaxSlotsOfSeveralHosts(t *testing.T) {
	around := around()
	around.ReadFile = func(string) ([]byte, error) { return []byte("n[1-2] slots=1 max-slots=2\n"), nil }
	_, err := Parse("gorun", []string{"--hostfile", "h", "-n", "5", "x"}, around)
	require.EqualError(t, err, "5 ranks are more than the max-slots=4 of n[1-2] together (--hostfile h)")
	_, err = Parse("gorun", []string{"--hostfile", "h", "--nproc-per-node", "3", "x"}, around)
	require.EqualError(t, err,
		"3 ranks are more than max-slots=2 of n1 (h:1)\n3 ranks are more than max-slots=2 of n2 (h:1)")
	_, err = Parse("gorun", []string{"--hostfile", "h", "-n", "4", "x"}, around)
	require.NoError(t, err)
}

func TestSplitCommand(t *testing.T) {
	for line, want := range map[string][]string{
		"ssh -K":                            {"ssh", "-K"},
		" kubectl  exec -i {host} -- ":      {"kubectl", "exec", "-i", "{host}", "--"},
		`ssh -o 'ProxyCommand nc %h %p' ""`: {"ssh", "-o", "ProxyCommand nc %h %p", ""},
		`ssh -o "User $x"`:                  nil,
		`a "b\"c\d"e\ f`:                    {"a", `b"c\de f`},
		`a 'it'\''s'`:                       {"a", "it's"},
		"a '$HOME | x'":                     {"a", "$HOME | x"},
		"":                                  nil, " ": nil, "''": nil, "a 'b": nil, `a "b`: nil, `a b\`: nil, "a | b": nil,
		"a $(b)": nil, "a > b": nil, "a; b": nil, "a `b`": nil,
	} {
		got, err := splitCommand(line)
		require.Equal(t, want == nil, err != nil, line)
		require.Equal(t, want, got, line)
	}
	_, err := Parse("gorun", []string{"--ssh", "ssh 'x", "p"}, around())
	require.EqualError(t, err, "--ssh ssh 'x: a ' is not closed")
	_, err = Parse("gorun", []string{"--ssh", "a | b", "p"}, around())
	require.EqualError(t, err, "--ssh a | b: '|' is shell syntax, but no shell runs this command: put it in single "+
		"quotes, or the command in a script")
}

// Quoting the words of a command and splitting them again gives the same words. The seeds are in testdata/fuzz.
func FuzzSplitCommand(f *testing.F) {
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitCommand(line)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = shellwords.QuotePOSIX(w)
		}
		again, err := splitCommand(strings.Join(quoted, " "))
		require.NoError(t, err)
		require.Equal(t, words, again)
	})
}
