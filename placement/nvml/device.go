//go:build cgo

package nvml

import (
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

const (
	// maxLinks limits the search for NVLinks.
	maxLinks = 64
	// maxCPUs limits the CPU masks. It exceeds the maximum of current kernels.
	maxCPUs = 8192
)

type device struct {
	nvml.Device
	library *library
	facts   *gpufacts.GPU
}

// ask stores the result of a query. After a failure it skips further queries, because each can take
// seconds on a lost GPU.
func ask[T any](d *device, function string, question func() (T, nvml.Return), store func(T)) (answered bool) {
	if d.facts.Failed || !d.library.has(function) {
		return false
	}
	answer, ret := question()
	if err := errorOf(function, ret); err != nil {
		d.facts.Failed = true
		d.library.note("NVIDIA's library fails for GPU %s (%v): its other properties are unknown", d.facts.PCI, err)
	}
	if ret == nvml.SUCCESS {
		store(answer)
	}
	return ret == nvml.SUCCESS
}

// describe queries the facts of a single GPU.
func (d *device) describe() {
	g := d.facts
	ask(d, "nvmlDeviceGetUUID", d.GetUUID, func(uuid string) { g.UUID = uuid })
	ask(d, "nvmlDeviceGetName", d.GetName, func(name string) { g.Name = name })
	ask(d, "nvmlDeviceGetMemoryInfo", d.GetMemoryInfo, func(m nvml.Memory) {
		g.Memory, g.Taken = int64(m.Total), new(int64(m.Used))
	})
	ask(d, "nvmlDeviceGetUtilizationRates", d.GetUtilizationRates, func(rates nvml.Utilization) {
		g.Busy = new(int(rates.Gpu))
	})
	ask(d, "nvmlDeviceGetPowerUsage", d.GetPowerUsage, func(milliwatts uint32) { g.Power = new(int(milliwatts)) })
	ask(d, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return d.GetTemperature(nvml.TEMPERATURE_GPU)
	}, func(degrees uint32) { g.Temperature = new(int(degrees)) })
	d.askParts()
	ask(d, "nvmlDeviceGetComputeRunningProcesses", d.GetComputeRunningProcesses, func(all []nvml.ProcessInfo) {
		g.Used = new(len(all) > 0)
		for _, p := range all {
			g.Processes = append(g.Processes, int(p.Pid))
		}
	})
	ask(d, "nvmlDeviceGetNumaNodeId", d.GetNumaNodeId, func(id int) { g.MemoryNode = &id })
	ask(d, "nvmlDeviceGetCpuAffinity", d.nearCPUs, func(mask []uint) {
		words := make([]uint64, len(mask))
		for i, word := range mask {
			words[i] = uint64(word)
		}
		g.Near = placement.CPUSetOf(words)
	})
	for i := 0; i < maxLinks && d.askLink(i); i++ { // link numbers have no gaps
	}
	d.askHealth()
}

// nearCPUs returns the CPUs of the GPU's NUMA node.
func (d *device) nearCPUs() ([]uint, nvml.Return) {
	if d.library.has("nvmlDeviceGetCpuAffinityWithinScope") {
		if mask, ret := d.GetCpuAffinityWithinScope(maxCPUs, nvml.AFFINITY_SCOPE_NODE); ret == nvml.SUCCESS {
			return mask, ret
		}
	}
	return d.GetCpuAffinity(maxCPUs) // before driver 450
}

// askParts queries the MIG devices of the GPU.
func (d *device) askParts() {
	divided, most := false, 0
	ask(d, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		current, _, ret := d.GetMigMode()
		return current, ret
	}, func(mode int) { divided = mode == nvml.DEVICE_MIG_ENABLE })
	if divided {
		ask(d, "nvmlDeviceGetMaxMigDeviceCount", d.GetMaxMigDeviceCount, func(n int) { most = n })
	}
	for i := range most { // indexes have gaps
		if !d.library.has("nvmlDeviceGetMigDeviceHandleByIndex") {
			return
		}
		if part, ret := d.GetMigDeviceHandleByIndex(i); ret == nvml.SUCCESS {
			if uuid, ret := part.GetUUID(); ret == nvml.SUCCESS {
				d.facts.MIG = append(d.facts.MIG, uuid)
			}
		}
	}
}

// askLink queries an NVLink and reports whether it exists.
func (d *device) askLink(i int) bool {
	g := d.facts
	return ask(d, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) {
		return d.GetNvLinkState(i)
	}, func(state nvml.EnableState) {
		if state != nvml.FEATURE_ENABLED {
			g.Down++
			return
		}
		if d.library.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
			kind, ret := d.GetNvLinkRemoteDeviceType(i)
			if ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				g.Switched++
				return
			}
		}
		var remote nvml.PciInfo
		ask(d, "nvmlDeviceGetNvLinkRemotePciInfo", func() (nvml.PciInfo, nvml.Return) {
			return d.GetNvLinkRemotePciInfo(i)
		}, func(info nvml.PciInfo) { remote = info })
		if g.Links == nil {
			g.Links = map[string]int{}
		}
		if !g.Failed {
			g.Links[address(remote)]++
		}
	})
}

// p2p maps the library's numbers. 0 means OK.
var p2p = map[nvml.GpuP2PStatus]placement.P2PStatus{
	nvml.P2P_STATUS_OK:                         placement.P2POK,
	nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:      placement.P2PChipset,
	nvml.P2P_STATUS_GPU_NOT_SUPPORTED:          placement.P2PGPU,
	nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: placement.P2PTopology,
	nvml.P2P_STATUS_DISABLED_BY_REGKEY:         placement.P2PDisabled,
	nvml.P2P_STATUS_NOT_SUPPORTED:              placement.P2PNone,
}

func (d *device) askPeer(other *device) {
	ask(d, "nvmlDeviceGetP2PStatus", func() (nvml.GpuP2PStatus, nvml.Return) {
		return d.GetP2PStatus(other.Device, nvml.P2P_CAPS_INDEX_READ)
	}, func(status nvml.GpuP2PStatus) {
		access, known := p2p[status]
		if !known {
			access = placement.P2PUndefined
		}
		d.facts.Peers = append(d.facts.Peers, placement.Peer{PCI: other.facts.PCI, Access: access})
	})
}

// computeModes prohibit programs on a GPU or allow only one.
var computeModes = map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive thread", nvml.COMPUTEMODE_PROHIBITED: "prohibited",
	nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive process",
}

// slowdowns maps bits of the clock throttle reasons. It omits an idle GPU and a power limit set by the
// administrator.
var slowdowns = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "thermal slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
	{nvml.ClocksThrottleReasonSwThermalSlowdown, "thermal slowdown by the driver"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"}, // also set with the first two
}

// askHealth queries the health of the GPU. Since Ampere, GPUs replace bad memory with remapped rows.
// Earlier GPUs retire pages.
func (d *device) askHealth() {
	var h gpufacts.Health
	answers := []bool{
		ask(d, "nvmlDeviceGetPersistenceMode", d.GetPersistenceMode, func(mode nvml.EnableState) {
			h.NoPersistence = mode == nvml.FEATURE_DISABLED
		}),
		ask(d, "nvmlDeviceGetComputeMode", d.GetComputeMode, func(mode nvml.ComputeMode) { h.Mode = computeModes[mode] }),
		ask(d, "nvmlDeviceGetCurrentClocksThrottleReasons", d.GetCurrentClocksThrottleReasons, func(reasons uint64) {
			for _, s := range slowdowns {
				if reasons&s.bit != 0 && (s.bit != nvml.ClocksThrottleReasonHwSlowdown || h.Slowed == nil) {
					h.Slowed = append(h.Slowed, s.name)
				}
			}
		}),
		ask(d, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
			return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		}, func(n uint64) { h.Uncorrected = int64(min(n, 1<<62)) }),
		ask(d, "nvmlDeviceGetRemappedRows", func() ([2]bool, nvml.Return) {
			_, _, pending, failed, ret := d.GetRemappedRows()
			return [2]bool{pending, failed}, ret
		}, func(rows [2]bool) { h.Pending, h.Broken = rows[0], rows[1] }),
		ask(d, "nvmlDeviceGetRetiredPagesPendingStatus", d.GetRetiredPagesPendingStatus, func(pending nvml.EnableState) {
			h.Pending = h.Pending || pending == nvml.FEATURE_ENABLED
		}),
	}
	if !d.facts.Failed && slices.Contains(answers, true) {
		d.facts.Health = &h
	}
}
