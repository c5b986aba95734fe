package sysfs_test

import (
	"fmt"

	"gorun/placement/sysfs"
)

// What this process may use of its machine.
func ExampleRead() {
	machine := sysfs.Read(sysfs.Needs{CPUs: true, GPUs: true})
	fmt.Println(machine.UsableCPUs(), machine.CPUReason(), len(machine.GPUs))
}
