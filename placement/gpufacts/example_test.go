package gpufacts_test

import (
	"fmt"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

func ExampleMerge() {
	machine := placement.Machine{GPUs: []placement.GPU{{PCI: "0000:1b:00.0"}}}
	gpufacts.Merge(&machine, gpufacts.Facts{GPUs: []gpufacts.GPU{{PCI: "0000:1b:00.0", Name: "NVIDIA H100"}}})
	fmt.Println(machine.GPUs[0].Name)
	// Output: NVIDIA H100
}
