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
