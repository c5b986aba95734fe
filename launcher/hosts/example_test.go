package hosts_test

import (
	"fmt"

	"gorun/launcher/hosts"
)

func ExampleExpand() {
	names, err := hosts.Expand("node[08-10],gate")
	fmt.Println(names, err)
	fmt.Println(hosts.NodeList(names))
	// Output:
	// [node08 node09 node10 gate] <nil>
	// node[08-10],gate
}

func ExampleParseList() {
	list, err := hosts.ParseList("node1:8,node2:4", "-H")
	fmt.Println(hosts.Names(list), hosts.TotalSlots(list), err)
	// Output: [node1 node2] 12 <nil>
}
