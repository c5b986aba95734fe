package dialect

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// TestVariablesOfHydra: under the name mpiexec, each of Hydra's variables acts like its option.
func TestVariablesOfHydra(t *testing.T) {
	for entry, option := range map[string]string{
		"HYDRA_LAUNCHER=rsh":               "-launcher rsh",
		"HYDRA_BOOTSTRAP=rsh":              "-bootstrap rsh",
		"I_MPI_HYDRA_BOOTSTRAP=rsh":        "-launcher rsh",
		"HYDRA_LAUNCHER_EXEC=kubectl":      "-launcher-exec kubectl",
		"HYDRA_BOOTSTRAP_EXEC=kubectl":     "-launcher-exec kubectl",
		"I_MPI_HYDRA_BOOTSTRAP_EXEC=x":     "-launcher-exec x",
		"HYDRA_RMK=user":                   "-rmk user",
		"HYDRA_IFACE=eth0":                 "-iface eth0",
		"I_MPI_HYDRA_IFACE=eth0":           "-iface eth0",
		"HYDRA_BINDING=core":               "-binding core",
		"HYDRA_MAPPING=socket":             "-map-by socket",
		"HYDRA_MEMBIND=interleave":         "-membind interleave",
		"HYDRA_ENV=none":                   "-genvnone",
		"HYDRA_ENV=all":                    "-genvall",
		"HYDRA_ENV=list:A,B":               "-genvlist A,B",
		"I_MPI_PERHOST=3":                  "-ppn 3",
		"HYDRA_HOST_FILE=cluster.txt":      "-f cluster.txt",
		"I_MPI_HYDRA_HOSTS_GROUP=a,b":      "-hosts a,b",
		"I_MPI_FAULT_CONTINUE=1":           "-disable-auto-cleanup",
		"HYDRA_TOPO_DEBUG=1":               "-report-bindings",
		"HYDRA_DEBUG=1":                    "-v",
		"MPIEXEC_TIMEOUT=9":                "-timeout 9",
		"HYDRA_LAUNCHER_EXTRA_ARGS=-p 123": "-launcher-exec 'ssh -p 123'",
	} {
		around := around(entry)
		fromVariable, err := Parse("mpiexec", []string{"x"}, around)
		require.NoError(t, err, entry)
		name, value, _ := strings.Cut(option, " ")
		words := []string{name, strings.Trim(value, "'"), "x"}
		if value == "" {
			words = []string{name, "x"}
		}
		typed, err := Parse("mpiexec", words, around)
		require.NoError(t, err, option)
		require.Equal(t, leavesWithoutOrigin(typed), leavesWithoutOrigin(fromVariable), entry)
		bare, err := Parse("mpiexec", []string{"x"}, Surroundings{Lookup: func(string) (string, bool) {
			return "", false
		}, Names: around.Names, ReadFile: around.ReadFile, IsThisHost: around.IsThisHost, LookPath: around.LookPath})
		require.NoError(t, err)
		if entry != "HYDRA_RMK=user" { // it has no effect outside a resource manager's job
			require.NotEqual(t, leavesWithoutOrigin(bare), leavesWithoutOrigin(fromVariable), entry)
		}
	}
}

// leavesWithoutOrigin are the leaves of a command line without the names of the options that set them.
func leavesWithoutOrigin(inv Invocation) map[string]any {
	for i := range inv.Spec.Exports {
		inv.Spec.Exports[i].From = ""
	}
	for i := range inv.Spec.Hosts {
		inv.Spec.Hosts[i].From = ""
	}
	return leavesOf(inv)
}

func newLine(d *Dialect) *Line { return &Line{dialect: d, tables: d.tables} }

// fallbacksOf are the variables of other launchers that a dialect reads.
func fallbacksOf(d *Dialect) []fallback {
	p := newLine(d)
	p.around = Surroundings{
		Lookup: func(string) (string, bool) { return "1", true },
		Names:  func() []string { return d.variablePrefixes },
	}
	return p.fallbacks()
}

// Under the name mpiexec, gorun knows every variable of the real mpiexec.
func TestEveryVariableOfHydra(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("testdata", "variables-hydra.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") {
			require.True(t, slices.ContainsFunc(fallbacksOf(Mpiexec), func(f fallback) bool { return f.variable == name }), name)
		}
	}
	page, err := os.ReadFile(filepath.Join(testneeds.Repository(t), "docs", "reference", "mpirun.md"))
	require.NoError(t, err)
	for _, f := range fallbacksOf(Mpiexec) {
		if f.option.Group != GroupAccepted && !strings.HasPrefix(f.variable, "TORCH") {
			require.Regexp(t, `\b`+f.variable+`\b`, string(page))
		}
	}
	inv := mustParse(t, "mpiexec -v x", "HYDRA_TOPOLIB=hwloc")
	require.Contains(t, strings.Join(inv.Notes, "\n"), "HYDRA_TOPOLIB=hwloc has no effect")
}

// TestParametersByEveryWay: a parameter of Open MPI's launcher has the same effect after --mca, after --prtemca and
// as either variable.
func TestParametersByEveryWay(t *testing.T) {
	for _, row := range newLine(Mpirun).mcaParameters() {
		for _, name := range row.AllNames() {
			value := otherwiseSaid[row.Name()]
			switch {
			case name == "orte_xml_output":
				continue // it is refused; see testdata/lines/problems.txt
			case row.Family == familyNoLocal:
				require.Equal(t, "a:1", listed(mustParse(t, "mpirun -H here,a x", "OMPI_MCA_"+name+"=1").Spec.Hosts))
				require.Equal(t, "a:1", listed(mustParse(t, "mpirun --mca "+name+" 1 -H here,a x").Spec.Hosts))
				continue
			case value == "":
				value = "1"
			case row.Name() == "orte_abort_on_non_zero_status":
				value = "0"
			}
			typed, err := Parse("mpirun", []string{"--mca", name, value, "x"}, around())
			require.NoError(t, err)
			require.Equal(t,
				[]job.Export{{Name: "OMPI_MCA_" + name, Value: value, HasValue: true, From: "--mca " + name + " " + value}},
				typed.Spec.Exports[:1], "ranks get it as well")
			typed.Spec.Exports = typed.Spec.Exports[1:]
			prte, err := Parse("mpirun", []string{"--prtemca", name, value, "x"}, around())
			require.NoError(t, err)
			prte.Spec.Exports = prte.Spec.Exports[1:]
			require.Equal(t, leavesWithoutOrigin(typed), leavesWithoutOrigin(prte), name)
			// these have no effect alone, or match the default
			if alone := []string{
				"mca_base_env_list_delimiter", "rmaps_dist_device",
				"rmaps_base_oversubscribe",
			}; !slices.Contains(alone, row.Name()) {
				require.NotEqual(t, leavesWithoutOrigin(mustParse(t, "mpirun x")), leavesWithoutOrigin(typed), name)
			}
			for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
				fromVariable := mustParse(t, "mpirun x", prefix+name+"="+value)
				require.Equal(t, leavesWithoutOrigin(typed), leavesWithoutOrigin(fromVariable), prefix+name)
				require.Equal(t, leavesWithoutOrigin(mustParse(t, "gorun x")),
					leavesWithoutOrigin(mustParse(t, "gorun x", prefix+name+"="+value)), "under that launcher's name alone")
			}
		}
	}
	require.Equal(t, []string{"--mca orte_tag_output perhaps: a switch is 1 or 0, true or false"},
		problems(t, "mpirun --mca orte_tag_output perhaps x"))
	require.Equal(t, "mlx5_0",
		mustParse(t, "mpirun --mca rmaps_dist_device mlx5_0 --map-by dist x").Spec.Place.MapBy.Device)
	require.Equal(t, "eth1",
		mustParse(t, "mpirun --map-by dist:eth1 x", "OMPI_MCA_rmaps_dist_device=mlx5_0").Spec.Place.MapBy.Device)
	inv := mustParse(t, "mpirun -v --mca oob_tcp_if_include eth0 -mca btl tcp,self x")
	require.Equal(t, []string{"--mca oob_tcp_if_include eth0 has no effect: gorun has no Open MPI daemons"}, inv.Notes)
}

//go:generate go test -run ^TestDocs -count=1 . -update

var update = flag.Bool("update", false, "write docs/reference/mpirun.md instead of comparing it")

// TestDocsNameEveryParameter: docs/reference/mpirun.md has the parameters of the table, in its order.
func TestDocsNameEveryParameter(t *testing.T) {
	file := filepath.Join(testneeds.Repository(t), "docs", "reference", "mpirun.md")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, table, found := strings.Cut(string(page), "| parameter | as |\n| --- | --- |\n")
	require.True(t, found)
	table, after, _ := strings.Cut(table, "\n\n")
	var want []string
	for _, row := range newLine(Mpirun).mcaParameters() {
		want = append(want, "| `"+strings.Join(row.AllNames(), "`, `")+"` | "+markedOptions(row.Help)+" |")
	}
	if *update {
		table = strings.Join(want, "\n")
		require.NoError(t, os.WriteFile(file, []byte(before+"| parameter | as |\n| --- | --- |\n"+table+"\n\n"+after), 0o644))
	}
	require.Equal(t, strings.Join(want, "\n"), table, "run make docs")
}

// markedOptions puts the options of a help text in backticks.
func markedOptions(help string) string {
	return regexp.MustCompile(
		`(^|[ ])(--?[a-zH][a-z-]*( (ppr:N:[a-zA-Z]+|:pe=N|core|node|slot|socket|continue|NAME|LIST))?)`).ReplaceAllString(
		help, "$1`$2`")
}

// TestArgumentsOfSSH: the arguments go to the named program, or select ssh.
func TestArgumentsOfSSH(t *testing.T) {
	for line, want := range map[string][]string{
		"mpirun --mca plm_rsh_args -p=12345 x":                                             {"ssh", "-p=12345"},
		"mpirun --prtemca plm_ssh_args -4 x":                                               {"ssh", "-4"},
		"mpirun --mca plm_rsh_args -4 --mca plm_rsh_agent kubectl x":                       {"kubectl", "-4"},
		"mpirun --mca plm_rsh_args -4 --mca plm_rsh_agent ssh x":                           {"ssh", "-4"},
		"mpirun --mca plm_rsh_args -4 --ssh kubectl x":                                     {"kubectl", "-4"},
		"mpirun -mca plm_rsh_agent ssh x":                                                  nil,
		"mpiexec -launcher rsh x":                                                          {"rsh"},
		"mpiexec -launcher-exec /opt/rsh -launcher rsh x":                                  {"/opt/rsh"},
		"mpiexec -launcher rsh -launcher-exec /opt/rsh x":                                  {"/opt/rsh"},
		"mpirun --ssh-config f x":                                                          nil,
		"mpirun --mca plm_rsh_args -4 --mca plm_rsh_agent rsh -H a,b -n 2 x : -n 1 -H b y": {"rsh", "-4"},
	} {
		require.Equal(t, want, mustParse(t, line).Spec.Reach.Command, line)
	}
	for entry, want := range map[string][]string{
		"OMPI_MCA_plm_rsh_args=-p 12345 -4":      {"ssh", "-p", "12345", "-4"},
		"PRTE_MCA_plm_ssh_args=-4":               {"ssh", "-4"},
		"OMPI_MCA_plm_rsh_agent=ssh":             nil,
		"OMPI_MCA_plm_rsh_agent=ssh : rsh":       nil,
		"PRTE_MCA_plm_ssh_agent=ssh:rsh":         nil,
		"OMPI_MCA_plm_rsh_agent=rsh : ssh":       {"rsh"},
		"PRTE_MCA_plm_ssh_agent=ssh -q -o A=b":   {"ssh", "-q", "-o", "A=b"},
		"OMPI_MCA_orte_rsh_agent=/opt/my/rsh -x": {"/opt/my/rsh", "-x"},
	} {
		require.Equal(t, want, mustParse(t, "mpirun x", entry).Spec.Reach.Command, entry)
		require.Equal(t, []string{"mine"},
			mustParse(t, "mpirun --ssh mine x", strings.Replace(entry, "_args=", "_agent=", 1)).Spec.Reach.Command, entry)
	}
	require.Contains(t, problems(t, "mpirun --mca plm_rsh_args -4 --ssh k{host} x")[0],
		"--mca plm_rsh_args -4: --ssh k{host} places the host itself")
	spec := mustParse(t, "mpirun --ssh-config f x", "OMPI_MCA_plm_rsh_args=-4", "OMPI_MCA_plm_rsh_agent=kubectl").Spec
	require.Nil(t, spec.Reach.Command, "what was typed counts")
	spec = mustParse(t, "mpirun --ssh kubectl x", "GORUN_SSH_CONFIG=f").Spec
	require.Empty(t, spec.Reach.SSHConfig)
}

// TestEnvironmentLists: mpirun's parameter for variables acts like -x.
func TestEnvironmentLists(t *testing.T) {
	parse := func(value string, more ...string) []job.Export {
		inv, err := Parse("mpirun", append(more, "--mca", "mca_base_env_list", value, "x"), around())
		require.NoError(t, err)
		return inv.Spec.Exports[1:]
	}
	from := func(value string) string { return "--mca mca_base_env_list " + value }
	require.Equal(t, []job.Export{
		{Name: "A", Value: "1", HasValue: true, From: from("A=1; B;C*")},
		{Name: "B", From: from("A=1; B;C*")},
		{Name: "C*", From: from("A=1; B;C*")},
	}, parse("A=1; B;C*"))
	inv, err := Parse("mpirun", []string{
		"--mca", "mca_base_env_list", "A=1;2+B", "--mca",
		"mca_base_env_list_delimiter", "+", "-x", "A=3", "x",
	}, around())
	require.NoError(t, err)
	require.Equal(t, []string{"1;2", "", "3"}, []string{
		inv.Spec.Exports[2].Value, inv.Spec.Exports[3].Value,
		inv.Spec.Exports[4].Value,
	})
	spec := mustParse(t, "mpirun -x A=typed x", "OMPI_MCA_mca_base_env_list=A=1;B=2").Spec
	require.Equal(t, []string{"1", "2", "typed"},
		[]string{spec.Exports[0].Value, spec.Exports[1].Value, spec.Exports[2].Value}, "the last counts")
	require.Equal(t, []string{"--mca mca_base_env_list =1: =1: the name of a variable is missing"},
		problems(t, "mpirun --mca mca_base_env_list =1 x"))
}

// TestHostsOfOneProgram: in a resource manager's job -H applies to the program that follows it, and other programs
// have all nodes. With a host file -H selects hosts for all programs. Open MPI 4.1.4 and 5.0.11 do both.
func TestHostsOfOneProgram(t *testing.T) {
	spec := mustParse(t, "mpirun -n 1 -H n2 ./server : -n 7 ./client", allocation...).Spec
	require.Equal(t, "n1:2 n2:2 n3:2 n4:2", slotted(spec.Hosts))
	require.Equal(t, "n2", spec.Apps[0].Hosts[0].Name)
	require.Nil(t, spec.Apps[1].Hosts)
	spec = mustParse(t, "mpirun -n 1 ./server : -n 2 -H n2,n3 ./client", allocation...).Spec
	require.Len(t, spec.Hosts, 4)
	require.Nil(t, spec.Apps[0].Hosts)
	require.Equal(t, []string{"n2", "n3"}, hosts.Names(spec.Apps[1].Hosts))
	spec = mustParse(t, "mpirun -n 1 -H n1 ./server : -n 2 -H n2 ./client", allocation...).Spec
	require.Len(t, spec.Hosts, 2, "nobody is left who could use the others")
	spec = mustParse(t, "gorun -H n1 -n 1 ./server : -n 1 ./client", allocation...).Spec
	require.Len(t, spec.Hosts, 1, "in gorun's own dialect it holds for all")
	for line, want := range map[string]string{
		"mpirun --hostfile cluster.txt -n 1 -H node1 ./server : -n 7 ./client":          "node1:2",
		"mpirun --hostfile cluster.txt -n 1 ./server : -n 2 -H node2 ./client":          "node2:2",
		"mpirun --hostfile cluster.txt -n 1 -H node1 ./server : -n 2 -H node2 ./client": "node1:2 node2:2",
		"mpirun --default-hostfile cluster.txt -n 1 -H node1 ./server : -n 7 ./client":  "node1:1",
		"mpirun -n 1 -H node1 ./server : -n 7 ./client":                                 "node1:1",
	} {
		require.Equal(t, want, listed(mustParse(t, line).Spec.Hosts), line)
	}
}
