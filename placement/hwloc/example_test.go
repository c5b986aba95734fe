package hwloc_test

import (
	"fmt"
	"os"

	"gorun/placement/hwloc"
	"gorun/placement/sysfs"
)

// Programs that use hwloc read this file if HWLOC_XMLFILE names it, in place of the kernel's files.
func ExampleXML() {
	topology, details, err := sysfs.ReadDetails()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile("machine.xml", []byte(hwloc.XML(topology, details)), 0o644); err != nil {
		fmt.Println(err)
	}
}
