package nccl

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocsNames keeps the list of names equal to the data.
func TestDocsNames(t *testing.T) {
	var names []string
	for _, v := range Variables() {
		if v.Status != Never && (strings.HasPrefix(v.Name, "NCCL_") || strings.HasPrefix(v.Name, "RCCL_")) {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	text := strings.Join(names, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("names.txt", []byte(text), 0o644))
		return
	}
	require.Equal(t, text, knownNames, "run make docs")
	for _, name := range names {
		require.True(t, hasLine(name), name)
		require.False(t, hasLine(name+"x") || hasLine(name[1:]), name)
	}
}

func TestUnreadNames(t *testing.T) {
	for name, meant := range map[string][]string{
		"NCCL_SHM_DISABLED": {"NCCL_SHM_DISABLE"}, "NCCL_SOKET_IFNAME": {"NCCL_SOCKET_IFNAME"}, "NCCL_DEUBG": {"NCCL_DEBUG"},
		"RCCL_BUFFSIZE": {"NCCL_BUFFSIZE"}, "RCCL_PROTO": {"NCCL_PROTO"},
		"NCCL_TIMEOUT": {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "NCCL_IB_TIMEOUT"},
	} {
		require.True(t, IsUnread(name), name)
		got, wrong := Meant(name)
		require.True(t, wrong, name)
		require.Equal(t, meant, got, name)
	}
	for _, name := range []string{
		"NCCL_DEBUG", "NCCL_HOME", "NCCL_VERSION", "NCCL_UCX_TLS", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "OFI_NCCL_PROTOCOL",
		"TORCH_NCCL_ASYNC_ERROR_HANDLING",
		"RCCL_MSCCL_ENABLE", "RCCL_DDA_ANYTHING", "NCCL_TESTS_DEVICE", "PATH",
	} {
		require.False(t, IsUnread(name), name)
	}
	for _, name := range []string{ // names used at real sites
		"NCCL_SITE", "NCCL_ENV", "NCCL_OPTS", "NCCL_MODULE", "NCCL_IB_DISABLE2", "NCCL_BACKEND",
		"NCCL_PROFILE", "NCCL_LOGDIR", "NCCL_PREFIX", "NCCL_TEST_BIN", "NCCL_CLUSTER_NAME",
	} {
		_, wrong := Meant(name)
		require.False(t, wrong, name)
	}
}

// Programs do not inherit a shell variable that is not exported.
func TestNamesThatAreNotExported(t *testing.T) {
	const exported = "NCCL_IB_HCA==mlx5_0\nexport NCCL_IB_HCA\nNCCL_ALGO=Ring ./a\n" +
		"NCCL_SOCKET_IFNAME==eth0\nmpirun -x NCCL_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME ./a\n"
	var found []string
	for _, f := range Lint(ParseFile("job.sh", []byte("#!/bin/sh\nNCCL_DEBUG=WARN\n"+exported+"./a\n")), Found{}) {
		if f.Problem == ProblemLocal {
			found = append(found, f.Name, f.Advice)
		}
	}
	require.Equal(t, []string{"NCCL_DEBUG", "Write export NCCL_DEBUG=WARN."}, found)
	for _, f := range Lint(ParseFile("job.sh", []byte("#!/bin/sh\nset -a\nNCCL_DEBUG=WARN\n./a\n")), Found{}) {
		require.NotEqual(t, ProblemLocal, f.Problem)
	}
}

// The cost at start-up of valid names beside 100 other variables.
func BenchmarkNamesAtStart(b *testing.B) {
	names := append(slices.Repeat([]string{"SOME_VARIABLE"}, 100),
		"NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_UCX_TLS", "RCCL_MSCCL_ENABLE")
	for b.Loop() {
		for _, name := range names {
			if IsUnread(name) {
				b.Fatal(name)
			}
		}
	}
}
