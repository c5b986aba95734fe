package inspect

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/doctor"
	"gorun/placement"
	"gorun/placement/gpufacts"
	"gorun/placement/sysfs"
)

const pciDir = "sys/bus/pci/devices"

// nvidia reads the state of NVIDIA's driver and queries its library; nil without a driver.
func (in *inspector) nvidia(m *placement.Machine) *doctor.NVIDIA {
	has := slices.ContainsFunc(m.GPUs, func(g placement.GPU) bool { return g.Vendor == placement.NVIDIA })
	version := in.text("proc/driver/nvidia/version")
	if !has && version == "" {
		return nil
	}
	n := &doctor.NVIDIA{Nodes: map[string]string{}}
	n.Driver, n.Open = parseDriver(version)
	n.Peermem = in.exists("sys/module/nvidia_peermem") || in.exists("sys/module/nv_peer_mem")
	n.GDRCopy = in.exists("dev/gdrdrv") || in.exists("sys/module/gdrdrv")
	if !has {
		return n
	}
	helper := in.exists("usr/bin/nvidia-modprobe") // creates missing device files for a program
	for _, node := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm"} {
		if why := in.System.Access(node); why != "" && (!helper || !strings.Contains(why, "no such")) {
			n.Nodes[node] = why
		}
	}
	query := gpufacts.Query{All: true}
	if in.NVML == nil || !query.NeedsLibrary(*m, sysfs.NVIDIASignsFS(in.Root)) {
		return n
	}
	deadline, _ := in.ctx.Deadline()
	facts, err := in.NVML(len(m.GPUs), time.Until(deadline))
	n.Asked, n.Facts = err == nil, facts
	if err != nil {
		n.Error = err.Error()
	}
	query.Complete(m, facts, err)
	return n
}

// parseDriver reads the first line of /proc/driver/nvidia/version:
//
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder)
func parseDriver(text string) (version string, open bool) {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.Contains(line, "Kernel Module") {
		return "", false
	}
	for _, word := range strings.Fields(line) {
		if major, _, dotted := strings.Cut(word, "."); dotted && strings.Trim(word, "0123456789.") == "" && len(major) == 3 {
			return word, strings.Contains(line, "Open Kernel Module")
		}
	}
	return "", false
}

// pci finds GPUs without a driver, and counts NVSwitches.
func (in *inspector) pci() (driverless []doctor.PCIDevice, switches int) {
	for _, address := range in.list(pciDir) {
		dir := pciDir + "/" + address
		class, vendor := in.text(dir+"/class"), in.text(dir+"/vendor")
		switch class[:min(6, len(class))] {
		case "0x0680": // a bridge
			if vendor == "0x10de" {
				switches++
			}
			continue
		case "0x0300", "0x0302", "0x0380", "0x1200":
		default:
			continue
		}
		driver := in.link(dir + "/driver")
		serves := map[string]string{"0x10de": "nvidia", "0x1002": "amdgpu"}[vendor]
		if serves == "" || driver == serves || in.exists("sys/module/nvidia") && vendor == "0x10de" && driver == "" &&
			in.text("proc/driver/nvidia/gpus/"+address+"/information") != "" {
			continue
		}
		driverless = append(driverless, doctor.PCIDevice{Address: address, Vendor: vendor, Class: class, Driver: driver})
	}
	return driverless, switches
}

// iommuTypes returns the types of the IOMMU groups of GPUs and adapters, by PCI address.
func (in *inspector) iommuTypes(m placement.Machine, ports []doctor.Port) map[string]string {
	kinds := map[string]string{}
	add := func(address string) {
		if group := in.link(pciDir + "/" + address + "/iommu_group"); address != "" && group != "" {
			if kind := in.text("sys/kernel/iommu_groups/" + group + "/type"); kind != "" {
				kinds[address] = kind
			}
		}
	}
	for _, g := range m.GPUs {
		add(g.PCI)
	}
	for _, p := range ports {
		add(p.PCI)
	}
	return kinds
}

// bridges reads the access control of the bridges above GPUs. It skips root ports, whose traffic passes the host
// anyway.
func (in *inspector) bridges(m placement.Machine) (list []doctor.Bridge) {
	var addresses []string
	for _, g := range m.GPUs {
		if g.Bus != nil && len(g.Bus.Bridges) > 1 {
			addresses = append(addresses, g.Bus.Bridges[1:]...)
		}
	}
	slices.Sort(addresses)
	for _, address := range slices.Compact(addresses) {
		b := doctor.Bridge{Address: address}
		if config, err := fs.ReadFile(in.Root, pciDir+"/"+address+"/config"); err == nil {
			if control, ok := accessControl(config); ok {
				b.ACS = &control
			}
		}
		list = append(list, b)
	}
	return list
}

// accessControl finds the ACS control word in a device's configuration space, of which only root can read more than
// 64 bytes. Source: PCI Express Base Specification, "Extended Capabilities" (a header has the ID, the version and the
// offset of the next).
func accessControl(config []byte) (control uint16, ok bool) {
	const (
		first = 0x100
		acs   = 0x000d
	)
	for at, steps := first, 0; at >= first && at+8 <= len(config) && steps < 64; steps++ {
		head := binary.LittleEndian.Uint32(config[at:])
		if head == 0 || head == 0xffffffff {
			return 0, false
		}
		if head&0xffff == acs {
			return binary.LittleEndian.Uint16(config[at+6:]), true
		}
		at = int(head >> 20)
	}
	return 0, false
}

// governors counts the CPUs by frequency governor, and returns the frequency driver.
func (in *inspector) governors() (counts map[string]int, driver string) {
	counts = map[string]int{}
	for _, name := range in.list("sys/devices/system/cpu/cpufreq") {
		dir := "sys/devices/system/cpu/cpufreq/" + name
		governor := in.text(dir + "/scaling_governor")
		if !strings.HasPrefix(name, "policy") || governor == "" {
			continue
		}
		counts[governor] += max(1, len(strings.Fields(in.text(dir+"/related_cpus"))))
		driver = in.text(dir + "/scaling_driver")
	}
	return counts, driver
}

// parseXids counts NVIDIA's errors in the kernel's log:
//
//	NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
func parseXids(log []byte) (list []doctor.Xid) {
	for line := range strings.Lines(string(log)) {
		_, rest, ok := strings.Cut(line, "NVRM: Xid (PCI:")
		if !ok {
			continue
		}
		address, rest, ok := strings.Cut(rest, "): ")
		if !ok || len(address) > 16 || strings.Trim(address, "0123456789abcdefABCDEF:.") != "" {
			continue
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		code, err := strconv.Atoi(rest[:max(0, end)])
		if err != nil || code > 9999 {
			continue
		}
		at := slices.IndexFunc(list, func(x doctor.Xid) bool { return x.PCI == address && x.Code == code })
		if at < 0 {
			if len(list) == 1000 {
				return list
			}
			list, at = append(list, doctor.Xid{PCI: address, Code: code}), len(list)
		}
		list[at].Count++
	}
	return list
}

// rdma reads the ports of RDMA devices. In a container that has device files of some it leaves out the others, as /sys
// lists all of the host.
func (in *inspector) rdma(m placement.Machine) (ports []doctor.Port) {
	verbs := map[string]string{}
	for _, name := range in.list("sys/class/infiniband_verbs") {
		if device := in.text("sys/class/infiniband_verbs/" + name + "/ibdev"); device != "" {
			verbs[device] = "/dev/infiniband/" + name
		}
	}
	for _, device := range in.list("sys/class/infiniband") {
		dir := "sys/class/infiniband/" + device
		refused := "the kernel has no uverbs device of it (module ib_uverbs)"
		if verbs[device] != "" {
			refused = in.System.Access(verbs[device])
		}
		board, hca, firmware := in.text(dir+"/board_id"), in.text(dir+"/hca_type"), in.text(dir+"/fw_ver")
		for _, name := range in.list(dir + "/ports") {
			number, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			p := doctor.Port{
				Device: device, Port: number, Board: board, Type: hca, Firmware: firmware, Verbs: verbs[device],
				Refused: refused, GID: -1,
			}
			in.port(&p, dir+"/ports/"+name)
			p.Counters = in.counters(p)
			complete(&p, m)
			ports = append(ports, p)
		}
	}
	refused := func(p doctor.Port) bool { return p.Refused != "" }
	if given := slices.DeleteFunc(slices.Clone(ports), refused); len(given) > 0 && in.container() != "" {
		return given
	}
	return ports
}

// port reads a port's state.
func (in *inspector) port(p *doctor.Port, dir string) {
	p.Layer = in.text(dir + "/link_layer")
	_, p.State, _ = strings.Cut(in.text(dir+"/state"), ": ")
	_, p.Physical, _ = strings.Cut(in.text(dir+"/phys_state"), ": ")
	p.Rate = in.text(dir + "/rate")
	p.Gbps, p.Width = parseRate(p.Rate)
	for _, name := range in.list(dir + "/pkeys") {
		key, err := strconv.ParseUint(strings.TrimPrefix(in.text(dir+"/pkeys/"+name), "0x"), 16, 16)
		if err == nil && key != 0 && !slices.Contains(p.PKeys, int(key)) {
			p.PKeys = append(p.PKeys, int(key))
		}
	}
	slices.Sort(p.PKeys)
}

// parseRate reads "400 Gb/sec (4X NDR)" as Gb/s and lanes, each 0 if unknown.
func parseRate(text string) (gbps float64, lanes int) {
	number, rest, _ := strings.Cut(text, " ")
	gbps, err := strconv.ParseFloat(number, 64)
	if err != nil || !(gbps >= 0 && gbps < 1e6) { // JSON has no NaN
		gbps = 0
	}
	_, inner, _ := strings.Cut(rest, "(")
	if n, _, ok := strings.Cut(inner, "X"); ok {
		if lanes, err = strconv.Atoi(n); err != nil || lanes < 0 || lanes > 64 {
			lanes = 0
		}
	}
	return gbps, lanes
}

// complete adds what package sysfs knows about a port.
func complete(p *doctor.Port, m placement.Machine) {
	if m.Topology == nil {
		return
	}
	for _, nic := range m.Topology.NICs {
		if nic.Name != p.Device || nic.Port != p.Port {
			continue
		}
		p.Interface, p.GID, p.Virtual, p.EFA = nic.Interface, nic.GID, nic.Kind == placement.Virtual,
			nic.Kind == placement.EFA
		if nic.Bus != nil {
			p.PCI = nic.Bus.Address
		}
	}
}

// interfaces reads the network interfaces.
func (in *inspector) interfaces(h *doctor.Host) {
	addresses := in.System.Addresses()
	for _, name := range in.list("sys/class/net") {
		dir := "sys/class/net/" + name
		kind, ok := in.number(dir + "/type")
		if !ok || kind == 772 { // ARPHRD_LOOPBACK
			continue
		}
		flags, _ := strconv.ParseUint(strings.TrimPrefix(in.text(dir+"/flags"), "0x"), 16, 32)
		i := doctor.Interface{
			Name: name, Physical: in.exists(dir + "/device"), Wireless: in.exists(dir+"/wireless") || in.exists(dir+"/phy80211"),
			Up: flags&1 != 0, Carrier: in.text(dir+"/carrier") == "1", Prefixes: addresses[name],
		}
		if i.Carrier {
			i.Duplex = in.text(dir + "/duplex")
			i.Mbps = int(in.natural(dir + "/speed"))
		}
		i.MTU = int(in.natural(dir + "/mtu"))
		received := dir + "/statistics/rx_"
		i.Packets, i.Dropped = in.natural(received+"packets"), in.natural(received+"missed_errors")
		i.Errors = in.natural(received+"errors") + in.natural(dir+"/statistics/tx_errors")
		h.Interfaces = append(h.Interfaces, i)
		if len(h.Interfaces) == maxInterfaces {
			h.Unknown = []string{fmt.Sprintf("of its network interfaces the first %d were looked at", maxInterfaces)}
			return
		}
	}
}

// maxInterfaces bounds what is read: hosts of many containers have thousands.
const maxInterfaces = 256
