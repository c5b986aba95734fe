package nccl

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

//go:generate go test -run ^TestDocs -count=1 . -update

var update = flag.Bool("update", false, "write the tables of docs/reference/nccl.md and the list of the library again")

const namesFile = "testdata/names-nccl.txt"

// noVariables are words in the library that look like variables.
var noVariables = map[string]string{
	"NCCL_COMM_PROPERTIES_INITIALIZER":            "a macro that a message names",
	"NCCL_CONFIG_INITIALIZER":                     "a macro that a message names",
	"NCCL_CTA_POLICY_EFFICIENCY":                  "a value in the program's interface",
	"NCCL_CTA_POLICY_ZERO":                        "a value in the program's interface",
	"NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER":      "a macro that a message names",
	"NCCL_DEVICE_UNPACK":                          "a kind of network in a message",
	"NCCL_GIN_CONNECTION_FULL":                    "a value in the program's interface",
	"NCCL_GIN_CONNECTION_RAIL":                    "a value in the program's interface",
	"NCCL_IB_MAX_DEVS_PER_NIC":                    "a constant that a message names",
	"NCCL_IB_RECV_WR_ID_DUMMY":                    "a constant that a message names",
	"NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_MSG_ID": "a constant that a message names",
	"NCCL_MAX_CGA_CLUSTER_SIZE":                   "a constant that a message names",
	"NCCL_MAX_P2P_PEERS":                          "a constant that a message names",
	"NCCL_NETDEVS_POLICY_AUTO":                    "a value in the source that a message names",
	"NCCL_NET_DEVICE_UNPACK":                      "a kind of network in a message",
	"NCCL_SIM_INFO_INITIALIZER":                   "a macro that a message names",
	"NCCL_SPLIT_NOCOLOR":                          "a value in the program's interface",
}

// ofOthers reports whether a library other than NCCL reads the variable.
func ofOthers(v Variable) bool { return v.Library != NCCL }

// namesIn reads a list of the words in a library.
func namesIn(t *testing.T, file string) Found {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	found := Found{Kind: NCCL}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, isVersion := strings.CutPrefix(lines.Text(), "# version "); isVersion {
			found.Version, err = ParseVersion(text)
			require.NoError(t, err)
		} else if !strings.HasPrefix(lines.Text(), "#") {
			found.Names = append(found.Names, lines.Text())
		}
	}
	return found
}

// againstLibrary compares the database with a library of its own version or a newer one.
func againstLibrary(t *testing.T, library Found) {
	t.Helper()
	require.Equal(t, NCCL, library.Kind)
	require.Greater(t, len(library.Names), 200)
	for _, v := range Variables() {
		switch {
		case ofOthers(v) || v.IsPattern():
		case v.Status == Never || v.Status == Removed:
			require.False(t, library.Has(v.Name), "%s is %s in the database, but in the library", v.Name, v.Status)
		case v.In(library.Version):
			require.True(t, library.Has(v.Name), "%s is %s in the database, but not in NCCL %s", v.Name, v.Status,
				library.Version)
		}
	}
	for _, name := range library.Names {
		v, known := Lookup(name)
		if why, excused := noVariables[name]; excused {
			require.NotEmpty(t, why)
			require.False(t, known && v.Name == name, "%s is in the database, and excused", name)
			continue
		}
		require.True(t, known && v.Name == name && v.Library == NCCL, "%s is in NCCL %s, but not in the database", name,
			library.Version)
	}
}

func TestDatabaseAgainstNames(t *testing.T) {
	againstLibrary(t, namesIn(t, namesFile))
}

// The checked-in list has the names of a library of its version.
func TestDatabaseAgainstLibrary(t *testing.T) {
	library := wheel(t)
	againstLibrary(t, library)
	if *update {
		text := "# Words in the strings of NCCL's library; go test ./env/nccl -update writes them again.\n# version " +
			library.Version.String() + "\n"
		require.NoError(t, os.WriteFile(namesFile, []byte(text+strings.Join(library.Names, "\n")+"\n"), 0o644))
	}
	if listed := namesIn(t, namesFile); listed.Version == library.Version {
		require.Equal(t, listed.Names, library.Names)
	}
}

// wheel reads the library of PyTorch's wheel.
func wheel(t *testing.T) Found {
	t.Helper()
	python := testneeds.Torch(t)
	prefix := filepath.Dir(filepath.Dir(python))
	files := FindLibraries(os.DirFS("/"), func(string) string { return "" }, prefix)
	if len(files) == 0 || !strings.HasPrefix(files[0], prefix) {
		testneeds.Skip(t, testneeds.LayerTorch, "the PyTorch of "+python+" has no NCCL")
	}
	f, err := os.Open(files[0])
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	library, err := ReadLibrary(f, info.Size())
	require.NoError(t, err)
	require.False(t, library.Version.IsZero())
	return library
}
