package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/process"
)

func TestDescribeOOM(t *testing.T) {
	const counted, in = "memory.events oom_kill 0→1", " (memory.events oom_kill 0→1)"
	tests := []struct {
		kill       process.OOMKill
		ranks      int
		text, hint string
	}{
		{
			process.OOMKill{Evidence: counted, Limit: 2 << 30},
			4, "limit 2.0 GiB" + in,
			"lower `--nproc-per-node` or raise the limit: 4 ranks share 2.0 GiB",
		},
		{
			process.OOMKill{Evidence: counted, Limit: 256 << 20},
			1, "limit 256 MiB" + in,
			"give the job more memory: the program needs more than 256 MiB",
		},
		{
			process.OOMKill{Evidence: counted, Limit: 1000 << 10},
			2, "limit 1000 KiB" + in,
			"lower `--nproc-per-node` or raise the limit: 2 ranks share 1000 KiB",
		},
		{
			process.OOMKill{Evidence: "kernel log", Limit: 24105 << 20, Host: true},
			2, "this host's 23.5 GiB (kernel log)",
			"lower `--nproc-per-node`: 2 ranks share this host's 23.5 GiB",
		},
		{process.OOMKill{Evidence: "kernel log"}, 2, "kernel log", ""},
	}
	for _, tt := range tests {
		text, hint := describeOOM(tt.kill, tt.ranks)
		assert.Equal(t, tt.text, text)
		assert.Equal(t, tt.hint, hint)
	}
}
