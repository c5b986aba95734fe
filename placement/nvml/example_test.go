package nvml_test

import (
	"fmt"

	"gorun/placement/gpufacts"
	"gorun/placement/nvml"
	"gorun/placement/sysfs"
)

// The kernel's facts and the library's. A program that must not hang asks in another process: see package worker.
func ExampleAsk() {
	machine := sysfs.Read(sysfs.Needs{GPUs: true})
	for _, note := range gpufacts.Merge(&machine, nvml.Ask()) {
		fmt.Println(note)
	}
}
