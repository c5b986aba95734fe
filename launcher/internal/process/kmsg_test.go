package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKernelLines(t *testing.T) {
	const log = "ff at 2.4\n<6>[    2.400000] before the job\n<3>[    2.500000] mlx5_0: link down\n<6>no time\n"
	assert.Equal(t, "[    2.500000] mlx5_0: link down\n", string(kernelLines([]byte(log), 250)))
}
