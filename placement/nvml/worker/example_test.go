package worker_test

import (
	"fmt"

	"gorun/placement/nvml/worker"
)

// Asks the program gorun-gpu, which may hang or crash without harm.
func ExampleProgram() {
	facts, err := worker.Program{}.Facts(8)
	if err != nil {
		fmt.Println(err) // such as: gorun-gpu is not installed
		return
	}
	for _, gpu := range facts.GPUs {
		fmt.Println(gpu.PCI, gpu.Name)
	}
}
