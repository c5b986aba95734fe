package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"gorun/placement/hwloc"
	"gorun/placement/sysfs"
)

// hwlocTopology describes this machine in hwloc's XML. On error MPI libraries discover the machine themselves.
func hwlocTopology() (string, error) {
	topology, details, err := sysfs.ReadDetails()
	if err != nil {
		return "", fmt.Errorf("MPI libraries do not get the machine's topology: %w", err)
	}
	return hwloc.XML(topology, details), nil
}

// writeTopology writes the file into a new directory, which is removed at the end of the job.
func (m *mpi) writeTopology() (string, error) {
	xml, err := m.topology()
	if err != nil {
		return "", err
	}
	dir, err := m.privateDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "topology.xml")
	return name, os.WriteFile(name, []byte(xml), 0o600)
}
