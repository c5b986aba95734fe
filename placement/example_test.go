package placement_test

import (
	"fmt"

	"gorun/placement"
)

func ExampleParseCPUSet() {
	set, err := placement.ParseCPUSet("0-3,8")
	fmt.Println(set, err)
	// Output: 0-3,8 <nil>
}

// Two ranks on a machine that you do not have. Package sysfs reads the one that you have.
func ExampleMap() {
	machine, err := placement.Example("dgx-h100")
	if err != nil {
		fmt.Println(err)
		return
	}
	bind, err := placement.ParseBindTo("core")
	if err != nil {
		fmt.Println(err)
		return
	}
	layout, err := placement.Map(placement.Request{Ranks: 2, BindTo: bind}, []placement.Machine{machine})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rank := range layout.Ranks {
		fmt.Println(rank.LocalRank, rank.CPUs, rank.GPU.PCI, rank.Reason)
	}
	// Output:
	// 0 0,112 0000:1b:00.0 --map-by core: core 0
	// 1 1,113 0000:43:00.0 --map-by core: core 1
}
