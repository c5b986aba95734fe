package sysfs

import (
	"io/fs"

	"gorun/placement"
)

// Ports reads the ports of this machine's RDMA devices: their names, kinds, states and rates. Drivers ask their devices for it, some
// slowly; nothing else of the machine is read.
func Ports() []placement.NIC { return PortsFS(disk("/")) }

// PortsFS reads them from a file tree with sys below its root.
func PortsFS(root fs.FS) (ports []placement.NIC) {
	r := &reader{root: root}
	for _, device := range r.names(rdmaDir) {
		ports = append(ports, r.readRDMA(device)...)
	}
	return ports
}
