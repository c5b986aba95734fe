package hwloc

import (
	"fmt"
	"strings"

	"gorun/placement"
)

// bitmap formats a set of CPUs or NUMA nodes like hwloc: 32-bit words, the highest first, such as
// "0x00000001,0xffffffff".
func bitmap(set placement.CPUSet) string {
	var words []string
	mask := set.Mask()
	for i := len(mask) - 1; i >= 0; i-- {
		for _, half := range []uint32{uint32(mask[i] >> 32), uint32(mask[i])} {
			if half != 0 || len(words) > 0 {
				words = append(words, fmt.Sprintf("0x%08x", half))
			}
		}
	}
	if len(words) == 0 {
		return "0x0"
	}
	return strings.Join(words, ",")
}
