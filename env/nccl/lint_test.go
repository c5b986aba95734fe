package nccl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLintOfTexts lints the settings of popular guides and real sites. Each file lists all expected findings.
func TestLintOfTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/*")
	require.NoError(t, err)
	require.Greater(t, len(files), 6)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var want, got []string
			for line := range strings.Lines(string(text)) {
				if name, found := strings.CutPrefix(strings.TrimSpace(line), "# want: "); found {
					want = append(want, name)
				}
			}
			settings := ParseFile(file, text)
			require.NotEmpty(t, settings)
			for _, f := range Lint(settings, Found{}) {
				got = append(got, f.Name+" "+string(f.Problem))
				require.True(t, f.Line > 0 &&
					strings.Contains(lineOf(string(text), f.Line), strings.TrimPrefix(f.Name, "OMPI_MCA_")), "%s is not on line %d",
					f.Name, f.Line)
			}
			require.Equal(t, want, got)
		})
	}
}

// A finding on an interface prefix suggests the exact form.
func TestLintOfInterfaces(t *testing.T) {
	for setting, want := range map[string]string{
		"NCCL_SOCKET_IFNAME=eth1":          "Write NCCL_SOCKET_IFNAME==eth1.",
		"NCCL_SOCKET_IFNAME=eth0,enp1s0f1": "Write NCCL_SOCKET_IFNAME==eth0,enp1s0f1.",
		"NCCL_SOCKET_IFNAME=^eth2":         "Write NCCL_SOCKET_IFNAME=^=eth2.",
		"NCCL_SOCKET_IFNAME==eth1":         "",
		"NCCL_SOCKET_IFNAME=^=eth1":        "",
		"NCCL_SOCKET_IFNAME=,eth1,":        "Write NCCL_SOCKET_IFNAME==,eth1,.",
		"NCCL_SOCKET_IFNAME=eth0,eth":      "", // there is no eth00, and eth means all of them
		"NCCL_SOCKET_IFNAME=^docker,lo":    "",
		"GLOO_SOCKET_IFNAME=eth1":          "", // Gloo matches complete names only
	} {
		found := Lint(Environ([]string{setting}), Found{})
		if want == "" {
			require.Empty(t, found, setting)
			continue
		}
		require.Len(t, found, 1, setting)
		require.Equal(t, ProblemPrefix, found[0].Problem)
		require.Equal(t, want, found[0].Advice)
	}
}

// A message is readable whatever the length of the value.
func TestLintOfLongValues(t *testing.T) {
	long := strings.Repeat("x y,", 1<<20)
	for _, setting := range []string{
		"NCCL_PROTO=" + long, "NCCL_SOCKET_IFNAME=" + long, "NCCL_IB_HCA=mlx5_1," + long,
		"NCCL_BUFFSIZE=8" + long, "NCCL_P2P_LEVEL=" + long,
	} {
		found := Lint(Environ([]string{setting}), Found{})
		require.NotEmpty(t, found, setting[:20])
		require.Less(t, len(found[0].Text+found[0].Advice), 1000)
	}
	require.Contains(t, Lint(Environ([]string{"NCCL_PROTO=" + strings.ReplaceAll(long, ",", " ")}), Found{})[0].Text,
		"… (4194304 bytes)")
}

func lineOf(text string, number int) string { return strings.Split(text, "\n")[number-1] }

// lintOne returns the findings on one environment variable for a library.
func lintOne(setting string, library Found) string {
	var all []string
	for _, f := range Lint(Environ(strings.Split(setting, " ")), library) {
		all = append(all, f.Name+" "+string(f.Problem)+": "+strings.TrimSpace(f.Text+" "+f.Advice))
	}
	return strings.Join(all, "\n")
}

// Lint reports variables that the library does not read, and no others.
func TestLintAgainstLibraries(t *testing.T) {
	old := Found{Kind: NCCL, Version: Version{2, 18, 3}}
	older := Found{Kind: NCCL, Version: Version{2, 4, 8}}
	amd := Found{
		Kind: RCCL, Version: Version{2, 21, 5},
		Names: []string{"NCCL_DEBUG", "NCCL_RINGS", "NCCL_SOCKET_IFNAME", "RCCL_TREES"},
	}
	future := Found{
		Kind: NCCL, Version: Version{2, 40, 0},
		Names: []string{"NCCL_DEBUG", "NCCL_OF_TOMORROW", "NCCL_SOCKET_IFNAME"},
	}
	for _, row := range []struct {
		setting string
		library Found
		want    string
	}{
		{"NCCL_RAS_ADDR=localhost:1", old, "NCCL_RAS_ADDR version: NCCL 2.18.3 does not read it: NCCL has it since 2.24"},
		{"NCCL_RAS_ADDR=localhost:1", Found{}, ""},
		{"NCCL_IB_GID_INDEX=3", old, ""},
		{"NCCL_LL_THRESHOLD=0", older, "NCCL_LL_THRESHOLD dead: this library still reads it, but NCCL 2.5 " +
			"and newer do not Leave it out: NCCL chooses by the size of each message."},
		{"RCCL_TREES=x", old, "RCCL_TREES version: only RCCL reads it, and the library is NCCL 2.18.3"},
		{"RCCL_TREES=x NCCL_RINGS=y NCCL_DEBUG=WARN", amd, ""},
		{"NCCL_NVLS_ENABLE=1", amd, "NCCL_NVLS_ENABLE version: RCCL 2.21.5 does not read it"},
		{"NCCL_OF_TOMORROW=1", future, ""},
		{"NCCL_OF_TOMOROW=1", future, "NCCL_OF_TOMOROW unknown: neither NCCL nor RCCL reads such a variable, nor does the " +
			"NCCL 2.40 that would be loaded Did you mean NCCL_OF_TOMORROW?"},
		{
			"RCCL_CROSS_NIC=0",
			Found{},
			"RCCL_CROSS_NIC unknown: neither NCCL nor RCCL reads such a variable Did you mean NCCL_CROSS_NIC?",
		},
		{
			"nccl_debug=INFO",
			Found{},
			"nccl_debug unknown: names are in capital letters, so no library reads this one Write NCCL_DEBUG.",
		},
		{
			"TORCH_NCCL_BLOCKNG_WAIT=1",
			Found{},
			"TORCH_NCCL_BLOCKNG_WAIT unknown: no library reads such a variable Did you mean TORCH_NCCL_BLOCKING_WAIT?",
		},
		{
			"GLOO_SOCKET_IFNAMES=eth0",
			Found{},
			"GLOO_SOCKET_IFNAMES unknown: no library reads such a variable Did you mean GLOO_SOCKET_IFNAME?",
		},
		{"PATH=/bin HOME=/root LANG=C", Found{}, ""},
	} {
		require.Equal(t, row.want, lintOne(row.setting, row.library), row.setting)
	}
}

// Each rule about two settings finds its conflict and ignores other values.
func TestCombinations(t *testing.T) {
	for _, row := range []struct{ wrong, right string }{
		{"NCCL_P2P_DISABLE=1 NCCL_P2P_LEVEL=PXB", "NCCL_P2P_DISABLE=0 NCCL_P2P_LEVEL=PXB"},
		{"NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=0"},
		{"NCCL_IB_DISABLE=1 NCCL_IB_HCA==mlx5_0", "NCCL_IB_DISABLE=0 NCCL_IB_HCA==mlx5_0"},
		{"NCCL_IB_DISABLE=1 NCCL_NET_GDR_READ=1", "NCCL_IB_DISABLE=0 NCCL_NET_GDR_READ=1"},
		{"NCCL_IB_DISABLE=1 NCCL_NET=ib", "NCCL_IB_DISABLE=1 NCCL_NET=Socket"},
		{"NCCL_NET=Socket NCCL_IB_TC=106", "NCCL_NET=IB NCCL_IB_TC=106"},
		{"NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=8", "NCCL_SOCKET_NTHREADS=8 NCCL_NSOCKS_PERTHREAD=8"},
		{"NCCL_MIN_CTAS=8 NCCL_MAX_CTAS=4", "NCCL_MIN_CTAS=4 NCCL_MAX_CTAS=8"},
		{"NCCL_MIN_NCHANNELS=8 NCCL_MAX_NCHANNELS=4", "NCCL_MIN_NCHANNELS=4 NCCL_MAX_NCHANNELS=4"},
		{"NCCL_IB_GID_INDEX=3 NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_GID_INDEX=-1 NCCL_IB_ADDR_FAMILY=AF_INET6"},
		{"NCCL_IB_GID_INDEX=3 NCCL_IB_ADDR_RANGE=10.0.0.0/8", "NCCL_IB_GID_INDEX=-1 NCCL_IB_ADDR_RANGE=10.0.0.0/8"},
		{"NCCL_IB_GID_INDEX=3 NCCL_IB_ROCE_VERSION_NUM=1", "NCCL_IB_GID_INDEX=-1 NCCL_IB_ROCE_VERSION_NUM=1"},
		{"NCCL_DEBUG=WARN NCCL_DEBUG_SUBSYS=NET", "NCCL_DEBUG=info NCCL_DEBUG_SUBSYS=NET"},
		{"NCCL_CUMEM_ENABLE=0 NCCL_NVLS_ENABLE=1", "NCCL_CUMEM_ENABLE=0 NCCL_NVLS_ENABLE=0"},
		{"NCCL_CUMEM_ENABLE=0 NCCL_MNNVL_ENABLE=1", "NCCL_CUMEM_ENABLE=0 NCCL_MNNVL_ENABLE=0"},
		{"NCCL_RAS_ENABLE=0 NCCL_RAS_ADDR=localhost:1", "NCCL_RAS_ENABLE=1 NCCL_RAS_ADDR=localhost:1"},
		{"ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=1"},
		{"ROCR_VISIBLE_DEVICES=1 GPU_DEVICE_ORDINAL=1", "ROCR_VISIBLE_DEVICES=1"},
		{"HIP_VISIBLE_DEVICES=1 GPU_DEVICE_ORDINAL=1", "GPU_DEVICE_ORDINAL=1"},
		{"OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_btl_tcp_if_exclude=lo", "OMPI_MCA_btl_tcp_if_include=eth0"},
		{
			"TORCH_NCCL_TRACE_BUFFER_SIZE=0 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
			"TORCH_NCCL_TRACE_BUFFER_SIZE=9 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
		},
		{"TORCH_FR_BUFFER_SIZE=0 TORCH_FR_DUMP_ON_TIMEOUT=1", "TORCH_FR_BUFFER_SIZE=9 TORCH_FR_DUMP_ON_TIMEOUT=1"},
	} {
		require.Contains(t, lintOne(row.wrong, Found{}), string(ProblemContradict), row.wrong)
		require.NotContains(t, lintOne(row.right, Found{}), string(ProblemContradict), row.right)
	}
	for _, rule := range combinations() { // rules refer to existing names only
		v, found := Lookup(rule.one)
		require.True(t, found && v.Alive(), rule.one)
		require.NotEmpty(t, Matching(rule.with), rule.with)
	}
}
