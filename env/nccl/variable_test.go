package nccl

import (
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	v, found := Lookup("NCCL_SOCKET_IFNAME")
	require.True(t, found)
	require.Equal(t, ScopeHost, v.Scope)
	require.False(t, v.MustAgree())
	v, found = Lookup("NCCL_FASTRAK_IFNAME")
	require.True(t, found && v.IsPattern())
	v, found = Lookup("TORCH_NCCL_OF_TOMORROW")
	require.True(t, found)
	require.Equal(t, "TORCH_NCCL_*", v.Name)
	_, found = Lookup("NCCL_SOKET_IFNAME")
	require.False(t, found)
	_, found = Lookup("NCCL_FASTRAK_")
	require.False(t, found, "a pattern matches longer names")
}

// The job's comparison of the ranks' environments depends on these.
func TestMustAgree(t *testing.T) {
	for _, name := range strings.Fields(`
		NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_NTHREADS NCCL_MIN_CTAS NCCL_MAX_CTAS NCCL_P2P_DISABLE NCCL_P2P_LEVEL
		NCCL_SHM_DISABLE NCCL_NVLS_ENABLE NCCL_COLLNET_ENABLE NCCL_P2P_LL_THRESHOLD NCCL_NET NCCL_NET_PLUGIN
		NCCL_IB_DISABLE NCCL_PXN_DISABLE NCCL_RUNTIME_CONNECT NCCL_SOCKET_FAMILY NCCL_SOCKET_MAGIC
		NCCL_IB_QPS_PER_CONNECTION NCCL_IB_SPLIT_DATA_ON_QPS NCCL_CUMEM_HOST_ENABLE NCCL_GRAPH_REGISTER
		NCCL_CHUNK_SIZE NCCL_LL_BUFFSIZE NCCL_P2P_NET_CHUNKSIZE NCCL_NVLS_CHUNKSIZE`) {
		v, found := Lookup(name)
		require.True(t, found && v.MustAgree(), name)
	}
	for _, name := range strings.Fields(`
		NCCL_SOCKET_IFNAME NCCL_IB_HCA NCCL_IB_GID_INDEX NCCL_TOPO_FILE NCCL_HOSTID NCCL_DEBUG NCCL_DEBUG_FILE
		NCCL_DEBUG_SUBSYS NCCL_IBVERBS_LIB NCCL_IGNORE_CPU_AFFINITY NCCL_PROXY_CPUSET GLOO_SOCKET_IFNAME
		CUDA_VISIBLE_DEVICES NCCL_TIMEOUT`) {
		v, found := Lookup(name)
		require.True(t, found && !v.MustAgree(), name)
	}
}

// Records refer to existing records, and dead ones have advice.
func TestRecordsAgree(t *testing.T) {
	names := map[string]int{}
	for _, v := range Variables() {
		require.Equal(t, v.Syntax.kind != "", formOf(v.Syntax.kind).check != nil, "%s: %s", v.Name, v.Syntax.kind)
		require.False(t, v.Syntax.words == nil && slices.Contains([]string{"enum", "words", "level"}, v.Syntax.kind), v.Name)
		require.False(t, strings.ContainsAny(v.Name, " \t="), v.Name)
		require.NotEmpty(t, v.Library, v.Name)
		require.Contains(t, []Status{Live, Undocumented, Deprecated, Removed, Never}, v.Status, v.Name)
		require.Contains(t, []Handling{Sets, Detects, Offers, Leaves}, v.Gorun, v.Name)
		if v.Alive() {
			require.NotEmpty(t, v.Meaning, v.Name)
			require.Contains(t, []Scope{ScopeJob, ScopeHost, ScopeLog}, v.Scope, v.Name)
		}
		require.True(t, v.Status == Live || v.Status == Undocumented || v.Advice != "", v.Name)
		require.False(t, v.Status == Removed && v.Until.IsZero(), v.Name)
		for _, c := range v.Cautions {
			require.NotEqual(t, []string{""}, c.Values, "%s has a field of another name: %s", v.Name, c.Text)
		}
		names[v.Name]++
		require.Equal(t, 1, names[v.Name], "%s is there twice", v.Name)
		for _, other := range v.Instead {
			instead, found := Lookup(other)
			require.True(t, found && (instead.Alive() || strings.HasPrefix(other, "OMPI_MCA_")), "%s: instead of it %s",
				v.Name, other)
		}
		for _, text := range append([]string{v.Meaning, v.Default, v.Values, v.Helps, v.Hurts, v.How, v.Advice},
			cautionTexts(v)...) {
			require.False(t, strings.ContainsAny(text, "\t\n"), "%s: %q", v.Name, text)
			require.NotContains(t, text, "  ", v.Name)
		}
		for _, text := range append([]string{v.Advice}, cautionTexts(v)...) {
			require.True(t, text == "" || strings.HasSuffix(text, "."), "%s: %q is no sentence", v.Name, text)
		}
		if !v.Since.IsZero() && !v.Until.IsZero() {
			require.Negative(t, v.Since.Compare(v.Until), v.Name)
		}
	}
}

func cautionTexts(v Variable) (texts []string) {
	for _, c := range v.Cautions {
		texts = append(texts, c.Text)
	}
	return texts
}

// Defaults match their own syntax.
func TestDefaultsAreValues(t *testing.T) {
	checked := 0
	for _, v := range Variables() {
		first, _, _ := strings.Cut(v.Default, " ")
		if v.Default == "" || strings.Contains(" chosen the all none as ib*, chosen unset IPv4 CUDA's standard ",
			" "+first+" ") || strings.ContainsAny(v.Default, ";*") {
			continue
		}
		require.NoError(t, v.Syntax.Check(strings.TrimRight(first, ",")), "%s: default %q", v.Name, v.Default)
		checked++
	}
	require.Greater(t, checked, 200)
}

func TestMatching(t *testing.T) {
	var names []string
	for _, v := range Matching("nccl_net_gdr_*") {
		names = append(names, v.Name)
	}
	require.Equal(t, []string{"NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_MLOPART"},
		names)
	require.Len(t, Matching("NCCL_DEBUG"), 1)
	require.Empty(t, Matching("NOTHING_*"))
	require.Greater(t, len(Matching("*")), 400)
}

func TestNearest(t *testing.T) {
	for typed, want := range map[string][]string{
		"NCCL_SOKET_IFNAME":       {"NCCL_SOCKET_IFNAME"},
		"NCCL_SOCKET_IFNAMES":     {"NCCL_SOCKET_IFNAME"},
		"nccl_debug":              {"NCCL_DEBUG"},
		"NCCL_DEBGU":              {"NCCL_DEBUG"},
		"NCCL_IFNAME_SOCKET":      {"NCCL_SOCKET_IFNAME"},
		"NCCL_IB_QPS_CONNECTION":  {"NCCL_IB_QPS_PER_CONNECTION"},
		"NCCL_SOMETHING_ELSE_YET": nil,
		"X":                       nil,
		"NCCL_FOO":                nil,
		"NCCL_SOKET":              {"NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_MAGIC"},
		"torch_nccl_nan_chek":     {"TORCH_NCCL_NAN_CHECK"},
	} {
		require.Equal(t, want, Nearest(typed, Names()), typed)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]Version{
		"2.30.7": {2, 30, 7}, "2.18": {2, 18, 0}, "v2.21.5-1": {2, 21, 5}, "2.30.7+cuda13.3": {2, 30, 7},
		" 2.4.8\n": {2, 4, 8},
	} {
		v, err := ParseVersion(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v)
	}
	for _, text := range []string{"", "2", "2.", "2.3.4.5", "a.b", "2.x", "0.0.0", "2.70000", "2.3x"} {
		_, err := ParseVersion(text)
		require.Error(t, err, text)
	}
	ordered := []Version{{}, {2, 4, 0}, {2, 4, 8}, {2, 21, 5}, {2, 30, 0}, {3, 0, 0}}
	require.True(t, slices.IsSortedFunc(ordered, Version.Compare))
	require.Equal(t, "2.30 2.30.7", Version{2, 30, 0}.String()+" "+Version{2, 30, 7}.String())
}

func TestIn(t *testing.T) {
	in := func(name, version string) bool {
		v, found := Lookup(name)
		require.True(t, found, name)
		parsed, err := ParseVersion(version)
		require.NoError(t, err)
		return v.In(parsed)
	}
	require.True(t, in("NCCL_RAS_ADDR", "2.24.3"))
	require.False(t, in("NCCL_RAS_ADDR", "2.23.4"))
	require.True(t, in("NCCL_LL_THRESHOLD", "2.4.8"))
	require.False(t, in("NCCL_LL_THRESHOLD", "2.5.6"))
	require.False(t, in("NCCL_TIMEOUT", "2.30.7"))
}

func TestSyntax(t *testing.T) {
	for _, row := range []struct{ name, right, wrong string }{
		{"NCCL_NTHREADS", "64 512 0x100", "16 1024 many 64k"},
		{"NCCL_SOCKET_IFNAME", "eth0 =eth0,eth1, ^docker,,lo ^=docker0", "= ^, =eth0,=eth1 =^eth0 eth0,^lo eth*"},
		{"GLOO_SOCKET_IFNAME", "eth0 eth0,eth1", "=eth0 ^lo eth0, averyveryverylongname"},
		{
			"NCCL_IB_HCA", "mlx5 =mlx5_0:1,mlx5_1 ^=mlx5_2 =mlx5_0::0:0 mlx5_0,",
			"= ^, =mlx5_0,=mlx5_1 mlx5_0:a mlx5_0:1:2:3:4 mlx5_0;mlx5_1",
		},
		{"NCCL_P2P_LEVEL", "NVL pxb SYS 3", "NVLINK -1"},
		{"NCCL_P2P_DISABLE", "0 1", "true 2 yes"},
		{"NCCL_BUFFSIZE", "4194304 0x400000", "8M 0 -1"},
		{"NCCL_DEBUG", "INFO warn VERSION", "DEBUG 1"},
		{"NCCL_DEBUG_SUBSYS", "INIT,NET ^NET ALL", "NETWORK INIT;BOOT"},
		{"NCCL_ALGO", "Ring ^Tree ring,tree ring;allreduce:tree,nvls", "Rings allreduced:ring"},
		{"NCCL_RAS_ADDR", "localhost:28028 [::1]:7 10.0.0.1:0", "localhost ::1:7 host:port"},
		{"NCCL_IB_ADDR_RANGE", "10.0.0.0/16 fd00::/8", "10.0.0.1"},
		{"NCCL_TOPO_FILE", "/a/b", "~/b"},
		{"CUDA_VISIBLE_DEVICES", "0,1 GPU-ab MIG-12 -1", "0;1 gpu0"},
		{"NCCL_PROXY_CPUSET", "0-3,8", "3-1 all"},
		{"NCCL_IB_TIMEOUT", "22 31", "32 300"},
	} {
		v, found := Lookup(row.name)
		require.True(t, found, row.name)
		require.NoError(t, v.Syntax.Check(""))
		for _, value := range strings.Fields(row.right) {
			require.NoError(t, v.Syntax.Check(value), "%s=%s", row.name, value)
		}
		for _, value := range strings.Fields(row.wrong) {
			require.Error(t, v.Syntax.Check(value), "%s=%s", row.name, value)
		}
	}
	v, _ := Lookup("NCCL_BUFFSIZE")
	require.EqualError(t, v.Syntax.Check("8M"), `has "M" after its number, and counts as 8`)
}

// Numbers are parsed as by strtoll with base 0.
func TestLeadingInt(t *testing.T) {
	for text, want := range map[string]struct {
		n    int64
		rest string
	}{
		"12": {12, ""}, "-3x": {-3, "x"}, "0x1F": {31, ""}, "0x": {0, "x"}, "010": {8, ""}, "09": {0, "9"},
		"+7 ": {7, " "}, "x": {0, "x"}, "": {0, ""}, "-": {0, "-"},
	} {
		n, rest := leadingInt(text)
		require.Equal(t, want.n, n, text)
		require.Equal(t, want.rest, rest, text)
	}
}

func TestParseConf(t *testing.T) {
	long := strings.Repeat("v", 2000)
	for text, want := range map[string][][3]any{
		"":                                    nil,
		"# NCCL_A=1\n\nNCCL_B=2\n":            {{"NCCL_B", "2", 3}},
		"NCCL_A=1\r\nNCCL_A=2":                {{"NCCL_A", "1", 1}},
		" NCCL_A=1\nNCCL_B =2\nNCCL_C= \"x\"": {{" NCCL_A", "1", 1}, {"NCCL_B ", "2", 2}, {"NCCL_C", " \"x\"", 3}},
		"NCCL_IF==eth0\nno\n=x":               {{"NCCL_IF", "=eth0", 1}},
		"A=" + long:                           {{"A", long[:1023], 1}},
		strings.Repeat("x", 4095) + "B=1":     {{"B", "1", 1}},
		"A=1\x00\nB=2":                        {{"A", "1", 1}, {"B", "2", 2}},
	} {
		var got [][3]any
		for _, a := range (ConfFile{Text: text}).Settings() {
			got = append(got, [3]any{a.Name, a.Value, a.Line})
		}
		require.Equal(t, want, got, "%.40q", text)
	}
}

func TestConfFiles(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		"/home/u/.nccl.conf /etc/nccl.conf": {"HOME": "/home/u"},
		"/etc/nccl.conf":                    {},
		"/job/nccl.conf /etc/nccl.conf":     {"HOME": "/home/u", "NCCL_CONF_FILE": "/job/nccl.conf"},
	} {
		getenv := func(name string) string { return environ[name] }
		require.Equal(t, want, strings.Join(confFiles(NCCL, getenv), " "))
		require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(want, "nccl", "rccl"), "/job/rccl", "/job/nccl"),
			strings.Join(confFiles(RCCL, getenv), " "))
	}
}

// ReadConf skips a pipe, which may never end, and returns an error for an unreadable file.
func TestReadConf(t *testing.T) {
	root := fstest.MapFS{
		"run/my.conf": {Mode: fs.ModeNamedPipe}, "etc/nccl.conf": {Data: []byte("A=1")},
	}
	getenv := func(name string) string {
		return map[string]string{"NCCL_CONF_FILE": "my.conf"}[name]
	}
	run := func() string { return "/run" }
	files, errs := ReadConf(root, NCCL, getenv, run)
	require.Equal(t, []ConfFile{{"/etc/nccl.conf", "A=1"}}, files)
	require.Empty(t, errs)
	root["run/my.conf"] = &fstest.MapFile{Data: []byte("C=3")}
	files, _ = ReadConf(root, NCCL, getenv, run)
	require.Equal(t, []ConfFile{{"my.conf", "C=3"}, {"/etc/nccl.conf", "A=1"}}, files)
	files, _ = ReadConf(root, NCCL, getenv, nil)
	require.Equal(t, []ConfFile{{"/etc/nccl.conf", "A=1"}}, files)
	_, errs = ReadConf(unreadable{root}, RCCL, func(string) string { return "" }, nil)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], "read /etc/rccl.conf: permission denied")
}

// unreadable has regular files that cannot be opened.
type unreadable struct{ fs.FS }

func (unreadable) Open(string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}
}

func (u unreadable) Stat(string) (fs.FileInfo, error) { return fs.Stat(u.FS, "etc/nccl.conf") }
