package nccl

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The library does not trim lines either.
func TestNothingIsTrimmedInConf(t *testing.T) {
	for line, want := range map[string]string{
		" NCCL_SOCKET_IFNAME==eth0":      "Write NCCL_SOCKET_IFNAME==eth0.",
		"NCCL_SOCKET_IFNAME = =eth0":     "Write NCCL_SOCKET_IFNAME==eth0.",
		"export NCCL_DEBUG=WARN":         "Write NCCL_DEBUG=WARN.",
		`NCCL_IB_HCA="=mlx5_0"`:          "Write NCCL_IB_HCA==mlx5_0.",
		"NCCL_DEBUG=WARN ":               "Write NCCL_DEBUG=WARN.",
		"NCCL_DEBUG=WARN":                "",
		"EDITOR= vi":                     "",
		"NCCL_DEBUG_FILE=/tmp/it's.here": "",
	} {
		found := Lint(Parse(FromConf, "nccl.conf", []byte(line+"\n")), Found{})
		if want == "" {
			assert.Empty(t, found, line)
			continue
		}
		if assert.Len(t, found, 1, line) {
			assert.Equal(t, want, found[0].Advice, line)
		}
	}
}
