package doctor_test

import (
	"fmt"

	"gorun/launcher/doctor"
)

// Package inspect describes a host; this one is made up.
func ExampleDiagnose() {
	host := &doctor.Host{Name: "node1", Shm: &doctor.FileSystem{Type: "tmpfs", Total: 64 << 20, Free: 64 << 20}}
	cluster := &doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{host}}
	for _, finding := range doctor.Diagnose(cluster, "shm") {
		fmt.Println(finding.Severity, finding.Text)
	}
	// Output: note /dev/shm has 64 MiB: little for PyTorch's data loaders
}

func ExampleFind() {
	check, _ := doctor.Find("memlock")
	fmt.Println(check.What)
	// Output: RLIMIT_MEMLOCK, where there are InfiniBand or RoCE adapters
}
