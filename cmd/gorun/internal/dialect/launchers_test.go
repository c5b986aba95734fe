package dialect

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// optionsOf reads a stored list of a launcher's options. A line has all spellings of one option, and one = per word
// of its value. The lists are from the help and the tables of the real launchers.
func optionsOf(t *testing.T, file string) map[string]int {
	f, err := os.Open(filepath.Join("testdata", file))
	require.NoError(t, err)
	defer f.Close()
	words := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		names := strings.Fields(lines.Text())
		n := 0
		if last := names[len(names)-1]; strings.Trim(last, "=") == "" {
			n, names = len(last), names[:len(names)-1]
		}
		for _, name := range names {
			words[name] = n
		}
	}
	return words
}

// launcherOptions are the lists, and the names that have another meaning in other launchers.
var launcherOptions = []struct {
	file    string
	dialect *Dialect
	size    int
}{
	{"options-openmpi-4.1.4.txt", Mpirun, 90},
	{"options-openmpi-5.0.11.txt", Mpirun, 100},
	{"options-hydra-4.0.2.txt", Mpiexec, 60},
	{"options-hydra-5.0.2.txt", Mpiexec, 60},
	{"options-intel-2021.18.txt", Mpiexec, 100},
}

// otherwise are names whose meaning depends on the name of gorun.
var otherwise = map[string]bool{
	"-p": true, "--arch": true, "--soft": true, "-s": true, "-debug": true,
	"--debug": true, "-N": true, "-tune": true,
}

// TestEveryOptionOfLaunchers: under each launcher's name, gorun knows all spellings, and they take as many words as
// in that launcher.
func TestEveryOptionOfLaunchers(t *testing.T) {
	for _, list := range launcherOptions {
		options := optionsOf(t, list.file)
		require.Greater(t, len(options), list.size, list.file)
		for _, d := range []*Dialect{list.dialect, Gorun, Mpirun, Mpiexec} {
			for typed, words := range options {
				// -p belongs to Slurm here; the others have values in the standard
				if otherwise[typed] && (d != list.dialect || typed == "-p" || typed == "--arch" || typed == "--soft") {
					continue
				}
				o := d.exact(typed)
				require.NotNil(t, o, "%s: %s does not know %s", list.file, d.Name, typed)
				if o.Optional && words == 1 {
					continue
				}
				got := 0
				if o.TakesValue() {
					got = max(o.words, 1)
				}
				require.Equal(t, words, got, "%s: %s %s", list.file, d.Name, typed)
			}
		}
	}
}
