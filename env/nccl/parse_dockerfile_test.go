package nccl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Both forms of ENV may span several lines. Lines within instructions count, too.
func TestDockerfiles(t *testing.T) {
	for text, want := range map[string][]string{
		"ENV NCCL_A \\\n    eth0\nENV NCCL_B x":      {"1 NCCL_A=eth0", "3 NCCL_B=x"},
		"ENV NCCL_A\\\n eth0":                        {"1 NCCL_A=eth0"},
		"ENV NCCL_A one \\\n  two\nENV NCCL_B 'x y'": {"1 NCCL_A=one   two", "3 NCCL_B=x y"},
		"ENV\tNCCL_A\t1":                             {"1 NCCL_A=1"},
		"ENV NCCL_A=1 \\\n    # why\n\n    NCCL_B=\"a b\" \\\n NCCL_C=3": {
			"1 NCCL_A=1", "4 NCCL_B=a b", "5 NCCL_C=3",
		},
		"COPY <<EOF /x\nENV NCCL_A=1\nEOF\nENV NCCL_B=1": {"2 NCCL_A=1", "4 NCCL_B=1"},
		"ENV NCCL_A=<<E\nENV NCCL_B=1":                   {"1 NCCL_A=<<E", "2 NCCL_B=1"},
	} {
		var got []string
		for _, a := range Parse(FromDockerfile, "Dockerfile", []byte(text)) {
			got = append(got, fmt.Sprintf("%d %s=%s", a.Line, a.Name, a.Value))
		}
		assert.Equal(t, want, got, text)
	}
}
