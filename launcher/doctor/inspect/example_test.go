package inspect_test

import (
	"fmt"
	"os"
	"time"

	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
)

// What is wrong with this machine.
func Example() {
	host := inspect.Inspect(inspect.Config{
		Root: os.DirFS("/"), System: inspect.Local(), Getenv: os.Getenv, Limit: 5 * time.Second,
	})
	cluster := &doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{&host}}
	for _, finding := range doctor.Diagnose(cluster) {
		fmt.Println(finding.Severity, finding.Text, finding.Fix)
	}
}
