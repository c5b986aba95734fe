package draw_test

import (
	"fmt"

	"gorun/placement"
	"gorun/placement/draw"
)

func ExamplePicture() {
	machine, err := placement.Example("hybrid")
	if err != nil {
		fmt.Println(err)
		return
	}
	placed := []draw.Placement{{Rank: 0, CPUs: placement.NewCPUSet(0, 1)}}
	fmt.Print(draw.Picture(machine, placed, draw.Style{Width: 60, ASCII: true}))
	// Output:
	// 1 package - 16 cores - 22 CPUs - 32 GiB - 1 NIC
	// you may use all CPUs
	// +- package 0 - numa 0 - 32 GiB ----------------------------+
	// | L3 0  cores 0-5, 2 threads each, performance, CPUs 0-11  |
	// | L3 0  cores 6-13, 1 thread each, efficiency, CPUs 12-19  |
	// |         0#############                                   |
	// | cores 14-15, 1 thread each, efficiency, CPUs 20-21       |
	// |         ##                                               |
	// | pci0000:00 - wlp0s20f3  0000:00:14.3  Ethernet           |
	// +----------------------------------------------------------+
	// # a core that you may use - 0-9 the rank on it (its last
	//   digit)
}
