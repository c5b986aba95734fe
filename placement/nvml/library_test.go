//go:build cgo

package nvml

import (
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

// withoutLibrary returns an example machine, and the same machine with only the facts from the
// kernel's files.
func withoutLibrary(t *testing.T, name string) (whole, part placement.Machine) {
	t.Helper()
	whole, err := placement.Example(name)
	require.NoError(t, err)
	part, err = placement.Example(name)
	require.NoError(t, err)
	for i := range part.GPUs {
		part.GPUs[i].Name, part.GPUs[i].Memory, part.GPUs[i].Links = "", 0, nil
	}
	return whole, part
}

// complete adds missing functions to the mocks, with the results of the machine. The mocks of go-nvml
// have no addresses, affinity or links, and panic on such queries.
func complete(s *server.Server, m placement.Machine) {
	for i, d := range s.Devices {
		completeDevice(d.(*server.Device), m, i)
	}
}

func completeDevice(d *server.Device, m placement.Machine, i int) {
	gpu := m.GPUs[i]
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		var info nvml.PciInfo
		_, err := fmt.Sscanf(gpu.PCI, "%04x:%02x:%02x.0", &info.Domain, &info.Bus, &info.Device)
		return info, result(err == nil)
	}
	d.GetCpuAffinityWithinScopeFunc = func(bits int, _ nvml.AffinityScope) ([]uint, nvml.Return) {
		mask := make([]uint, bits/64+1)
		for cpu := range bits {
			if gpu.Bus.Near.Has(cpu) {
				mask[cpu/64] |= 1 << (cpu % 64)
			}
		}
		return mask, nvml.SUCCESS
	}
	d.GetNumaNodeIdFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return nvml.P2P_STATUS_OK, nvml.SUCCESS
	}
	links := 0
	if len(gpu.Links) > 0 {
		links = gpu.Links[0].Count
	}
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, resultOr(link < links, nvml.ERROR_INVALID_ARGUMENT)
	}
	d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97}, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 412_345, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS }
	d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
		return nvml.ClocksThrottleReasonGpuIdle, nvml.SUCCESS
	}
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
		return 0, nvml.SUCCESS
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
	d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
}

// This test covers the health of a GPU, and queries that the library does not support.
func TestHealth(t *testing.T) {
	whole, _ := withoutLibrary(t, "dgx-h100")
	for name, test := range map[string]struct {
		change func(d *server.Device)
		want   *gpufacts.Health
		failed bool
	}{
		"well": {func(*server.Device) {}, &gpufacts.Health{}, false},
		"sick": {func(d *server.Device) {
			d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS }
			d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_PROHIBITED, nvml.SUCCESS }
			d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
				return nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksThrottleReasonHwSlowdown |
						nvml.ClocksThrottleReasonSwPowerCap,
					nvml.SUCCESS
			}
			d.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, since nvml.EccCounterType) (uint64, nvml.Return) {
				return 7, resultOr(kind == nvml.MEMORY_ERROR_TYPE_UNCORRECTED && since == nvml.VOLATILE_ECC,
					nvml.ERROR_INVALID_ARGUMENT)
			}
			d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, true, nvml.SUCCESS }
		}, &gpufacts.Health{
			NoPersistence: true, Mode: "prohibited", Slowed: []string{"thermal slowdown"}, Uncorrected: 7,
			Pending: true, Broken: true,
		}, false},
		"retired pages, and no ECC": {func(d *server.Device) {
			d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
				return 9, nvml.ERROR_NOT_SUPPORTED
			}
			d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) {
				return 0, 0, true, true, nvml.ERROR_NOT_SUPPORTED
			}
			d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) {
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			}
			d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
				return nvml.ClocksThrottleReasonHwSlowdown, nvml.SUCCESS
			}
		}, &gpufacts.Health{Slowed: []string{"hardware slowdown"}, Pending: true}, false},
		"lost": {func(d *server.Device) {
			d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
		}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := dgxh100.New()
			complete(s, whole)
			test.change(s.Devices[1].(*server.Device))
			facts := askLibrary(s)
			require.Len(t, facts.GPUs, 8)
			assert.Equal(t, test.want, facts.GPUs[1].Health)
			assert.Equal(t, test.failed, facts.GPUs[1].Failed)
			assert.Equal(t, &gpufacts.Health{}, facts.GPUs[2].Health)
			assert.Regexp(t, `^1[0-9]\.[0-9]+$`, facts.CUDA)
		})
	}
}

func result(ok bool) nvml.Return { return resultOr(ok, nvml.ERROR_UNKNOWN) }

func resultOr(ok bool, wrong nvml.Return) nvml.Return {
	if ok {
		return nvml.SUCCESS
	}
	return wrong
}

// The facts from the library and from the kernel describe the whole machine.
func TestMockedMachines(t *testing.T) {
	tests := []struct {
		name   string
		server *server.Server
		gpu    string
		gib    int64
	}{
		{"dgx-a100", dgxa100.New(), "Mock NVIDIA A100-SXM4-40GB", 40},
		{"dgx-h100", dgxh100.New(), "NVIDIA H100 80GB HBM3", 80},
		{"dgx-h100", dgxh200.New(), "NVIDIA H200 141GB HBM3e", 141},
		{"dgx-h100", dgxb200.New(), "NVIDIA B200 180GB HBM3e", 180},
	}
	for _, test := range tests {
		t.Run(test.gpu, func(t *testing.T) {
			want, got := withoutLibrary(t, test.name)
			complete(test.server, want)
			merge(&got, askLibrary(test.server))
			for i := range want.GPUs {
				g := &want.GPUs[i]
				g.Name, g.Memory = test.gpu, test.gib<<30
				g.UUID = test.server.Devices[i].(*server.Device).UUID
				for _, other := range want.GPUs {
					if other.PCI != g.PCI {
						g.Peers = append(g.Peers, placement.Peer{PCI: other.PCI, Access: placement.P2POK})
					}
				}
			}
			assert.Equal(t, want, got)
		})
	}
}

// If the firmware reports no nodes or wrong nodes for the GPUs, NVIDIA's affinity applies.
func TestAffinity(t *testing.T) {
	want, got := withoutLibrary(t, "dgx-a100")
	s := dgxa100.New()
	complete(s, want)
	nowhere := *got.GPUs[0].Bus
	nowhere.Node, nowhere.Near = -1, placement.CPUSet{}
	got.GPUs[0].Bus = &nowhere
	elsewhere := *got.GPUs[1].Bus
	elsewhere.Node, elsewhere.Near = 0, got.Topology.Nodes[0].CPUs
	got.GPUs[1].Bus = &elsewhere
	got.GPUs[2].Bus = nil
	merge(&got, askLibrary(s))
	assert.Equal(t, want.GPUs[0].Bus, got.GPUs[0].Bus)
	assert.Equal(t, want.GPUs[1].Bus, got.GPUs[1].Bus)
	assert.Equal(t, &placement.Bus{Address: "0000:47:00.0", Node: 1, Near: got.Topology.Nodes[1].CPUs}, got.GPUs[2].Bus)
	assert.Equal(t, []string{
		"the kernel reports NUMA node 0 for GPU 0000:0f:00.0, NVIDIA's library 3: gorun uses the latter",
	}, got.Notes)
}

// In the library's numbers, 0 means OK.
func TestP2PStatus(t *testing.T) {
	for number, want := range []placement.P2PStatus{
		"ok", "chipset not supported", "GPU not supported", "topology not supported", "disabled by a registry key",
		"not supported", "unknown", "unknown",
	} {
		whole, got := withoutLibrary(t, "pcie-8gpu")
		s := dgxa100.New()
		complete(s, whole)
		s.Devices[2].(*server.Device).GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus,
			nvml.Return,
		) {
			return nvml.GpuP2PStatus(number), nvml.SUCCESS
		}
		merge(&got, askLibrary(s))
		assert.Equal(t, placement.Peer{PCI: "0000:17:00.0", Access: want}, got.GPUs[2].Peers[0])
		assert.Empty(t, got.GPUs[2].Links)
	}
}

// Direct links without a switch connect pairs of GPUs, as with bridges on four PCIe cards.
func TestDirectLinks(t *testing.T) {
	whole, got := withoutLibrary(t, "pcie-8gpu")
	s := dgxa100.New()
	complete(s, whole)
	for i := range 4 {
		d, peer := s.Devices[i].(*server.Device), s.Devices[i^1].(*server.Device)
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link == 2 {
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_ENABLED, resultOr(link < 4, nvml.ERROR_NOT_SUPPORTED)
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_GPU, resultOr(i < 2, nvml.ERROR_FUNCTION_NOT_FOUND)
		}
		d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) { return peer.GetPciInfo() }
	}
	merge(&got, askLibrary(s))
	assert.Equal(t, []placement.Link{{Peer: "0000:18:00.0", Kind: "nvlink", Count: 3}}, got.GPUs[0].Links)
	assert.Equal(t, []placement.Link{{Peer: "0000:31:00.0", Kind: "nvlink", Count: 3}}, got.GPUs[3].Links)
	assert.Empty(t, got.GPUs[4].Links)
	assert.Empty(t, got.Notes)
}

func TestLinksAreDown(t *testing.T) {
	whole, got := withoutLibrary(t, "dgx-h100")
	s := dgxh100.New()
	complete(s, whole)
	for _, d := range s.Devices {
		d.(*server.Device).GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_DISABLED, resultOr(link < 18, nvml.ERROR_INVALID_ARGUMENT)
		}
	}
	merge(&got, askLibrary(s))
	assert.Empty(t, got.GPUs[0].Links)
	require.Len(t, got.Notes, 8)
	assert.Equal(t,
		"all 18 NVLinks of GPU 0000:1b:00.0 are down: on a machine with NVSwitch, check with `systemctl status "+
			"nvidia-fabricmanager`",
		got.Notes[0])
}

func TestMIGAndUsers(t *testing.T) {
	whole, got := withoutLibrary(t, "dgx-h100")
	s := dgxh100.New()
	complete(s, whole)
	d := s.Devices[1].(*server.Device)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		part := &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return fmt.Sprint("MIG-", i), nvml.SUCCESS }}
		return part, resultOr(i%3 == 0, nvml.ERROR_NOT_FOUND)
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 77}}, nvml.SUCCESS
	}
	merge(&got, askLibrary(s))
	assert.Equal(t, []string{"MIG-0", "MIG-3", "MIG-6"}, got.GPUs[1].MIG)
	assert.True(t, got.GPUs[1].Used)
	assert.Nil(t, got.GPUs[2].MIG)
	assert.False(t, got.GPUs[2].Used)
	assert.Empty(t, got.Notes)
}

// Utilization facts do not change the machine.
func TestBusyGPUs(t *testing.T) {
	whole, _ := withoutLibrary(t, "dgx-h100")
	s := dgxh100.New()
	complete(s, whole)
	d := s.Devices[1].(*server.Device)
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.SUCCESS }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 80 << 30, Used: 7 << 30}, nvml.SUCCESS
	}
	s.Devices[2].(*server.Device).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED // MIG is enabled
	}
	facts := askLibrary(s)
	assert.Equal(t, []int{97, 412_345, 61}, []int{*facts.GPUs[0].Busy, *facts.GPUs[0].Power, *facts.GPUs[0].Temperature})
	assert.Equal(t, []any{0, int64(7 << 30), int64(80 << 30)},
		[]any{*facts.GPUs[1].Busy, *facts.GPUs[1].Taken, facts.GPUs[1].Memory})
	assert.Nil(t, facts.GPUs[2].Busy)
	assert.Empty(t, facts.Notes)
}

// On Grace, the GPUs' memories are NUMA nodes without CPUs.
func TestMemoryNode(t *testing.T) {
	whole, got := withoutLibrary(t, "gb200-tray")
	s := dgxb200.New()
	s.Devices = s.Devices[:4]
	complete(s, whole)
	for i, node := range []int{2, 10, 0, 4294967295} {
		s.Devices[i].(*server.Device).GetNumaNodeIdFunc = func() (int, nvml.Return) { return node, nvml.SUCCESS }
	}
	merge(&got, askLibrary(s))
	var nodes []int
	for _, gpu := range got.GPUs {
		nodes = append(nodes, gpu.MemoryNode)
	}
	assert.Equal(t, []int{2, 10, 0, 0}, nodes)
}

// Under WSL, the kernel's files do not describe GPUs.
func TestGPUsOnlyTheLibraryKnows(t *testing.T) {
	whole, got := withoutLibrary(t, "dgx-h100")
	s := dgxh100.New()
	complete(s, whole)
	amd := placement.GPU{PCI: "0000:03:00.0", Vendor: placement.AMD}
	got.GPUs = []placement.GPU{got.GPUs[4], amd}
	merge(&got, askLibrary(s))
	require.Len(t, got.GPUs, 9)
	for i, gpu := range got.GPUs[:8] {
		assert.Equal(t, whole.GPUs[i].PCI, gpu.PCI)
		assert.Equal(t, i, gpu.Index)
	}
	assert.Equal(t, amd, got.GPUs[8])
}

// If any query fails for any reason, all other facts are present.
func TestFailureInMidCall(t *testing.T) {
	failures := map[string]func(d *server.Device, ret nvml.Return){
		"UUID": func(d *server.Device, ret nvml.Return) {
			d.GetUUIDFunc = func() (string, nvml.Return) { return "", ret }
		},
		"Name": func(d *server.Device, ret nvml.Return) {
			d.GetNameFunc = func() (string, nvml.Return) { return "", ret }
		},
		"Memory": func(d *server.Device, ret nvml.Return) {
			d.GetMemoryInfoFunc = func() (m nvml.Memory, _ nvml.Return) { return m, ret }
		},
		"PCI": func(d *server.Device, ret nvml.Return) {
			d.GetPciInfoFunc = func() (p nvml.PciInfo, _ nvml.Return) { return p, ret }
		},
		"MIG": func(d *server.Device, ret nvml.Return) {
			d.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, ret }
		},
		"processes": func(d *server.Device, ret nvml.Return) {
			d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, ret }
		},
		"affinity": func(d *server.Device, ret nvml.Return) {
			d.GetCpuAffinityWithinScopeFunc = func(int, nvml.AffinityScope) ([]uint, nvml.Return) { return nil, ret }
			d.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) { return nil, ret }
		},
		"P2P": func(d *server.Device, ret nvml.Return) {
			d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) { return 0, ret }
		},
		"link state": func(d *server.Device, ret nvml.Return) {
			d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, ret }
		},
		"link's end": func(d *server.Device, ret nvml.Return) {
			d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) { return 0, ret }
			d.GetNvLinkRemotePciInfoFunc = func(int) (p nvml.PciInfo, _ nvml.Return) { return p, ret }
		},
	}
	for name, fail := range failures {
		for _, ret := range []nvml.Return{
			nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_GPU_IS_LOST,
			nvml.ERROR_UNKNOWN,
		} {
			t.Run(name+" "+ret.String(), func(t *testing.T) {
				whole, got := withoutLibrary(t, "dgx-h100")
				s := dgxh100.New()
				complete(s, whole)
				fail(s.Devices[3].(*server.Device), ret)
				merge(&got, askLibrary(s))
				require.Len(t, got.GPUs, 8)
				assert.Equal(t, whole.GPUs[3].Bus, got.GPUs[3].Bus, "what the kernel tells stays")
				assert.Equal(t, "NVIDIA H100 80GB HBM3", got.GPUs[4].Name)
				assert.Len(t, s.ShutdownCalls(), 1)
				if ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_UNKNOWN || name == "PCI" {
					require.Len(t, got.Notes, 1)
					assert.Contains(t, got.Notes[0], ret.String())
				} else {
					assert.Empty(t, got.Notes)
				}
			})
		}
	}
}

func TestLibraryThatTellsNothing(t *testing.T) {
	whole, got := withoutLibrary(t, "dgx-h100")
	_, want := withoutLibrary(t, "dgx-h100")
	s := dgxh100.New()
	complete(s, whole)
	s.InitFunc = func() nvml.Return { return nvml.ERROR_LIB_RM_VERSION_MISMATCH }
	want.Notes = []string{"NVIDIA's library reports nothing (nvmlInit: " + nvml.ERROR_LIB_RM_VERSION_MISMATCH.String() +
		"): NVLinks, memory and users of the GPUs are unknown"}
	merge(&got, askLibrary(s))
	assert.Equal(t, want, got)

	got = placement.Machine{}
	merge(&got, askLibrary(s))
	assert.Empty(t, got.Notes, "without NVIDIA GPUs there is no note on their library")

	s = dgxh100.New()
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	merge(&got, askLibrary(s))
	assert.Len(t, got.Notes, 1)

	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 3, nvml.SUCCESS }
	s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
	got = placement.Machine{}
	merge(&got, askLibrary(s))
	assert.Len(t, got.Notes, 3)
	assert.Empty(t, got.GPUs)
}

// A function that an old driver lacks is not called, because the call would exit the program.
func TestOldDriver(t *testing.T) {
	whole, got := withoutLibrary(t, "dgx-h100")
	s := dgxh100.New()
	complete(s, whole)
	s.LookupSymbolFunc = func(string) error { return fmt.Errorf("undefined symbol") }
	for _, d := range s.Devices {
		d := d.(*server.Device)
		d.GetUUIDFunc, d.GetNameFunc, d.GetMemoryInfoFunc, d.GetMigModeFunc = nil, nil, nil, nil
		d.GetCpuAffinityWithinScopeFunc, d.GetNumaNodeIdFunc, d.GetP2PStatusFunc = nil, nil, nil
		d.GetNvLinkStateFunc, d.GetComputeRunningProcessesFunc, d.GetUtilizationRatesFunc = nil, nil, nil
		d.GetNvLinkStateFunc, d.GetComputeRunningProcessesFunc = nil, nil
		d.GetPersistenceModeFunc, d.GetComputeModeFunc, d.GetCurrentClocksThrottleReasonsFunc = nil, nil, nil
		d.GetTotalEccErrorsFunc, d.GetRemappedRowsFunc, d.GetRetiredPagesPendingStatusFunc = nil, nil, nil
	}
	merge(&got, askLibrary(s))
	_, want := withoutLibrary(t, "dgx-h100")
	assert.Equal(t, want, got)
}

// With or without the real library, no known fact is lost.
func TestRealLibrary(t *testing.T) {
	_, m := withoutLibrary(t, "dgx-h100")
	m.Notes = gpufacts.Query{All: true}.Complete(&m, Ask(), nil)
	assert.GreaterOrEqual(t, len(m.GPUs), 8)
	assert.True(t, Linked)

	var none placement.Machine
	none.Notes = gpufacts.Query{All: true}.Complete(&none, Ask(), nil)
	if len(none.GPUs) == 0 {
		assert.Empty(t, none.Notes)
	}
}
