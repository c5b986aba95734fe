package plan

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// threeHosts has the launcher's host, another host, and one that joined.
func threeHosts(inherited ...string) Inputs {
	in := job(0, inherited...)
	in.Nodes = []Node{
		{Endpoint: Endpoint{Interface: "eth0"}},
		{
			Remote: true, Environ: []string{"HOME=/home/there", "PATH=/there", "EDITOR=vi"},
			Endpoint: Endpoint{Interface: "eth1"},
		},
	}
	in.Ranks = []Rank{{Node: 0, LocalRank: 0}, {Node: 0, LocalRank: 1}, {Node: 1, LocalRank: 0}}
	return in
}

// values returns a variable of the first rank of each node; "-" means unset.
func values(e Environment, in Inputs, name string) (list []string) {
	for node := range in.Nodes {
		rank := slices.IndexFunc(in.Ranks, func(r Rank) bool { return r.Node == node })
		v, ok := e.find(node, rank, name)
		if !ok {
			v.Value = "-"
		}
		list = append(list, v.Value)
	}
	return list
}

func TestOtherHostsInherit(t *testing.T) {
	inherited := []string{
		"PATH=/here", "HOME=/home/here", "NCCL_DEBUG=INFO", "EDITOR=emacs", "HF_TOKEN=secret", "SSH_AUTH_SOCK=/tmp/agent",
		"RANK=7",
		"https_proxy=http://me:pw@proxy", "HF_HOME=/data", "OMP_NUM_THREADS=3",
	}
	plain := map[string][]string{
		"PATH":            {"/here", "/here"},
		"HOME":            {"/home/here", "/home/there"},
		"NCCL_DEBUG":      {"INFO", "INFO"},
		"HF_HOME":         {"/data", "/data"},
		"OMP_NUM_THREADS": {"3", "3"},
		"EDITOR":          {"emacs", "-"},
		"HF_TOKEN":        {"secret", "-"},
		"https_proxy":     {"http://me:pw@proxy", "-"},
		"SSH_AUTH_SOCK":   {"/tmp/agent", "-"},
	}
	for name, c := range map[string]struct {
		all      bool
		unlisted bool
		exports  []Export
		want     map[string][]string // in addition to plain
		withheld []string
	}{
		"the list": {withheld: []string{"EDITOR", "HF_TOKEN", "https_proxy"}},
		"-x": {
			exports: []Export{{Name: "HF_*"}, {Name: "SSH_AUTH_SOCK"}, {Name: "HOME", Value: "/x", HasValue: true}},
			want: map[string][]string{
				"HF_TOKEN": {"secret", "secret"}, "SSH_AUTH_SOCK": {"/tmp/agent", "/tmp/agent"},
				"HOME": {"/x", "/x"},
			},
			withheld: []string{"EDITOR", "https_proxy"},
		},
		"mpiexec's default": {
			unlisted: true, want: map[string][]string{"EDITOR": {"emacs", "emacs"}},
			withheld: []string{"HF_TOKEN", "https_proxy"},
		},
		"--export-all": {
			all: true,
			want: map[string][]string{
				"HF_TOKEN": {"secret", "secret"}, "EDITOR": {"emacs", "emacs"},
				"https_proxy": {"http://me:pw@proxy", "http://me:pw@proxy"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := threeHosts(inherited...)
			in.ExportAll, in.ExportUnlisted, in.Exports = c.all, c.unlisted, c.exports
			e := build(t, in)
			for name, want := range plain {
				if other, ok := c.want[name]; ok {
					want = other
				}
				assert.Equal(t, want, values(e, in, name), name)
			}
			assert.Equal(t, c.withheld, e.Withheld)
			for _, v := range e.Common {
				assert.NotEqual(t, "HOST", v.Name)
			}
		})
	}
}

// The claims of docs/internals/mpi.md hold, and an outer launcher's variables of its own rank are not
// forwarded.
func TestSettingsOfMPITravel(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/mpi.md")
	require.NoError(t, err)
	promise := regexp.MustCompile(`(?s)its own variables \((.*?)\)\s+are passed on to all hosts`).FindSubmatch(text)
	require.NotNil(t, promise)
	patterns := regexp.MustCompile("`([A-Z0-9_]+[*]?)`").FindAllStringSubmatch(string(promise[1]), -1)
	require.Greater(t, len(patterns), 8)
	var inherited []string
	for _, p := range patterns {
		inherited = append(inherited, strings.Replace(p[1], "*", "SETTING", 1)+"=mine")
	}
	identities := []string{ // of ranks of Open MPI 4.1 and 5.0, Hydra, Intel MPI and MVAPICH
		"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_WORLD_SIZE", "OMPI_UNIVERSE_SIZE", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX",
		"OMPI_APP_CTX_NUM_PROCS", "OMPI_FILE_LOCATION", "OMPI_MCA_orte_hnp_uri",
		"OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_orte_ess_node_rank", "OMPI_VERSION",
		"PRTE_LAUNCHED", "PMIX_RANK", "PMIX_SERVER_URI41",
		"I_MPI_HYDRA_UUID", "I_MPI_PIN_INFO", "I_MPI_INFO_NUMA_NODE_MAP", "HYDRA_BSTRAP_PGID", "MV2_COMM_WORLD_RANK",
		"PMI_RANK",
	}
	for _, name := range identities {
		inherited = append(inherited, name+"=outer")
	}
	in := threeHosts(inherited...)
	e := build(t, in)
	for _, p := range patterns {
		require.Equal(t, []string{"mine", "mine"}, values(e, in, strings.Replace(p[1], "*", "SETTING", 1)), p[1])
	}
	for _, name := range identities {
		require.NotContains(t, values(e, in, name), "outer", name)
	}
}

// A node that joined has its own environment, as with torchrun.
func TestJoinedNodesInheritTheirOwn(t *testing.T) {
	in := threeHosts("PATH=/here", "MINE=1", "OMP_NUM_THREADS=3")
	in.Nodes[1] = Node{Joined: true, Remote: true, Environ: []string{
		"PATH=/there", "RANK=3", "GORUN_TOKEN=x",
		"YOURS=2",
	}, Threads: 5, Why: "5 CPUs"}
	in.Exports = []Export{{Name: "BOTH", Value: "b", HasValue: true}}
	e := build(t, in)
	for name, want := range map[string][]string{
		"PATH": {"/here", "/there"}, "MINE": {"1", "-"}, "YOURS": {"-", "2"}, "GORUN_TOKEN": {"-", "-"}, "RANK": {"0", "2"},
		"OMP_NUM_THREADS": {"3", "5"}, "BOTH": {"b", "b"},
	} {
		assert.Equal(t, want, values(e, in, name), name)
	}
	assert.Empty(t, e.Withheld)
}

// With a single remote host, its ranks share all their variables.
func TestOneOtherHost(t *testing.T) {
	in := job(2, "PATH=/here", "MINE=1", "HOME=/home/here")
	in.Nodes[0] = Node{Remote: true, Environ: []string{"HOME=/home/there"}, Endpoint: Endpoint{Interface: "eth1"}}
	e := build(t, in)
	assert.Empty(t, e.Nodes)
	assert.Equal(t, []string{"/home/there"}, values(e, in, "HOME"))
	assert.Equal(t, []string{"-"}, values(e, in, "MINE"))
	assert.Equal(t, []string{"-"}, values(e, in, "NCCL_SOCKET_IFNAME"), "one host needs no network")
}

func TestInterfaces(t *testing.T) {
	in := threeHosts()
	e := build(t, in)
	assert.Equal(t, []string{"=eth0", "=eth1"}, values(e, in, "NCCL_SOCKET_IFNAME"))
	assert.Equal(t, []string{"eth0", "eth1"}, values(e, in, "GLOO_SOCKET_IFNAME"))
	assert.Equal(t, []string{"eth0", "eth1"}, values(e, in, "TP_SOCKET_IFNAME"))
	assert.Len(t, e.Nodes[1], 6,
		"what differs by node is with the node: three interfaces, HOME, GROUP_RANK and LOCAL_WORLD_SIZE")
	in = threeHosts("GLOO_SOCKET_IFNAME=ib0")
	in.Exports = []Export{{Name: "NCCL_SOCKET_IFNAME", Value: "ib", HasValue: true}}
	e = build(t, in)
	assert.Equal(t, []string{"ib0", "ib0"}, values(e, in, "GLOO_SOCKET_IFNAME"), "the user's")
	assert.Equal(t, []string{"ib", "ib"}, values(e, in, "NCCL_SOCKET_IFNAME"))
	in = threeHosts()
	in.Nodes[1].Interface = ""
	assert.Equal(t, []string{"eth0", "-"}, values(build(t, in), in, "TP_SOCKET_IFNAME"), "not known")
}

// Each name is in at most one table, and gorun does not forward the variables of one host.
func TestForwardRules(t *testing.T) {
	sent, stays := namesOf(forwarded), namesOf(ownOfHost, bound)
	for _, p := range slices.Concat(ownOfHost, bound) {
		for _, name := range p.Names {
			assert.False(t, sent.has(name), name)
		}
	}
	for _, p := range forwarded {
		for _, name := range p.Names {
			assert.False(t, stays.has(name), name)
		}
	}
	assert.Equal(t, []string{"HOME=/h", "TMPDIR=/t"},
		OwnOfHost([]string{"HOME=/h", "PATH=/bin", "TMPDIR=/t", "SSH_TTY=/dev/pts/1", "odd"}))
}
