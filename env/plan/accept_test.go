package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A launcher that another user started cannot set a variable that names a file on the node. This covers every
// variable that gorun sets, and others.
func TestNoPathsOfAnotherLauncher(t *testing.T) {
	text := map[string]bool{"TORCHELASTIC_RUN_ID": true, "ROLE_NAME": true, "GORUN_JOB_WORLD": true}
	own := map[string]bool{
		"TORCHELASTIC_ERROR_FILE": true, "GORUN_JOB_KEY": true, "PWD": true,
		"PMI_FD": true, "PMI_PORT": true, "PMIX_SERVER_URI3": true, "TORCH_FR_DUMP_TEMP_FILE": true,
		"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": true, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": true,
	}
	for _, r := range rules() {
		name := r.Name
		if r.value == nil {
			assert.False(t, Accepts(strings.Trim(name, "*"), "1"), name)
			continue
		}
		if name != "NCCL_RAS_ADDR" && name != openMPIDaemon {
			assert.Equal(t, !own[name], Accepts(name, "1"), name)
		}
		for _, path := range []string{
			"/home/user/.bashrc", "../x", "a:/b", "file:///x", "1.0;tcp://192.0.2.1:1", "0,/x",
		} {
			assert.Equal(t, text[name], Accepts(name, path), "%s=%s", name, path)
		}
	}
	assert.False(t, Accepts("NCCL_RAS_ADDR", "192.0.2.1:22"), "the node itself would connect there")
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "HOME", "TMPDIR", "PYTHONPATH", "PYTHONSTARTUP", "NCCL_CONF_FILE",
		"NCCL_TOPO_FILE", "NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_NET_PLUGIN",
		"OMPI_MCA_orte_top_session_dir", "OMPI_MCA_mca_base_component_path", "PMIX_MCA_x", "PMIX_SERVER_TMPDIR",
		"GORUN_PYTHON", "GORUN_SSH", "UCX_MODULE_DIR",
	} {
		assert.False(t, Accepts(name, "x"), name)
	}
	for _, entry := range []string{
		"OMPI_MCA_orte_local_daemon_uri=1.0;tcp://127.0.0.1:1",
		"CUDA_VISIBLE_DEVICES=MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0,MIG-GPU-1/2/0",
		"MASTER_ADDR=fe80::1", "GORUN_JOB_STORE=10.0.0.1:29500", "NCCL_RAS_ADDR=localhost:1", "RANK=0",
	} {
		name, value, _ := strings.Cut(entry, "=")
		assert.True(t, Accepts(name, value), entry)
	}
}
