package inspect_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gorun/launcher/doctor"
	"gorun/placement"
)

func TestSickGPUs(t *testing.T) {
	const h100 = "0000:1b:00.0"
	testFaults(t, []fault{
		{"no driver", "one", func(s *scene) {
			s.Put("sys/bus/pci/devices/0000:3b:00.0/class", "0x030200")
			s.Put("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de")
		}, "gpu-driver", doctor.Warning, "0000:3b:00.0"},
		{"library of another version", "dgx-h100", func(s *scene) {
			s.nvml.GPUs, s.nvml.Error = nil, "nvmlInit: Driver/library version mismatch"
		}, "gpu-library", doctor.Error, "another version"},
		{"older driver", "dgx-h100", func(s *scene) {
			s.Put("proc/driver/nvidia/version",
				"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build")
		}, "driver-differs", doctor.Warning, "550.54.15, on 2 others 570.86.15"},
		{"driver older than PyTorch", "dgx-h100", func(s *scene) {
			s.nvml.CUDA = "11.4"
		}, "cuda-driver", doctor.Error, "CUDA up to 11.4"},
		{"no uvm", "dgx-h100", func(s *scene) { s.Remove("dev/nvidia-uvm") }, "gpu-access", doctor.Error, "/dev/nvidia-uvm"},
		{"a GPU in use", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[3].Used, s.nvml.GPUs[3].Processes = new(true), []int{812}
		}, "gpu-used", doctor.Warning, "1 GPU is in use: 3"},
		{"a GPU that is lost", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[0].Failed = true
		}, "gpu-errors", doctor.Error, "GPU 0"},
		{"ECC", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[1].Health.Uncorrected = 2
		}, "gpu-errors", doctor.Warning, "GPU 1 had 2 uncorrectable memory errors"},
		{"a reset is due", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[1].Health.Pending = true
		}, "gpu-errors", doctor.Warning, "reset"},
		{"Xid 79", "dgx-h100", func(s *scene) {
			s.log = "4,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n" +
				"4,2,3,-;NVRM: Xid (PCI:0000:43:00): 31, pid=9\n"
		}, "gpu-errors", doctor.Error, "Xid 79"},
		{"throttled", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[7].Health.Slowed = []string{"thermal slowdown"}
		}, "gpu-slowed", doctor.Warning, "7"},
		{"prohibited", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[7].Health.Mode = "prohibited"
		}, "gpu-mode", doctor.Error, "prohibited"},
		{"NVLinks without access", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[0].Peers[0].Access = placement.P2PNone
		}, "p2p", doctor.Error, "0-1"},
		{"NVLinks down", "dgx-h100", func(s *scene) {
			s.nvml.GPUs[2].Switched, s.nvml.GPUs[2].Down = 16, 2
		}, "nvlink", doctor.Warning, "2 (16 of 18)"},
		{"no fabric manager", "dgx-h100", func(s *scene) {
			s.Remove("proc/77")
			s.Put("sys/bus/pci/devices/0000:c4:00.0/class", "0x068000")
			s.Put("sys/bus/pci/devices/0000:c4:00.0/vendor", "0x10de")
		}, "fabric-manager", doctor.Error, "NVSwitches"},
		{"IOMMU", "dgx-h100", func(s *scene) {
			s.Link(s.pci(h100)+"/iommu_group", "sys/kernel/iommu_groups/7")
			s.Put("sys/kernel/iommu_groups/7/type", "DMA-FQ")
		}, "iommu", doctor.Warning, h100},
		{"IOMMU passes", "dgx-h100", func(s *scene) {
			s.Link(s.pci(h100)+"/iommu_group", "sys/kernel/iommu_groups/7")
			s.Put("sys/kernel/iommu_groups/7/type", "identity")
			s.limits["nofile"] = doctor.Limit{Soft: 100, Hard: 100} // so that there is something to find
		}, "nofile", doctor.Warning, ""},
		{"ACS", "dgx-h100", func(s *scene) {
			dir := s.pci(h100)
			config := make([]byte, 4096)
			binary.LittleEndian.PutUint32(config[0x100:], 0x148<<20|1<<16|0x0001)
			binary.LittleEndian.PutUint32(config[0x148:], 1<<16|0x000d)
			binary.LittleEndian.PutUint16(config[0x148+6:], 0x1d)
			s.MapFS[dir[:strings.LastIndexByte(dir, '/')]+"/config"] = &fstest.MapFile{Data: config}
		}, "acs", doctor.Warning, "ACS"},
		{"half of the lanes", "dgx-h100", func(s *scene) {
			for file, content := range map[string]any{
				"max_link_speed":     "32.0 GT/s PCIe",
				"current_link_speed": "2.5 GT/s PCIe", "max_link_width": 16, "current_link_width": 8,
			} {
				s.Put(s.pci(h100)+"/"+file, content)
			}
		}, "pcie-width", doctor.Warning, "x8 of x16"},
		{"no GPUDirect", "dgx-h100", func(s *scene) {
			s.Put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Oct 19")
		}, "gpudirect", doctor.Warning, "GPUDirect"},
		{"no libibverbs", "dgx-h100", func(s *scene) {
			s.Remove("usr/lib/x86_64-linux-gnu/libibverbs.so.1")
		}, "fabric-libraries", doctor.Warning, "libibverbs"},
	})
}

func TestSickAMDGPUs(t *testing.T) {
	m, err := placement.Example("mi300x")
	require.NoError(t, err)
	mi300x := m.GPUs[0].PCI
	testFaults(t, []fault{
		{"/dev/kfd refused", "mi300x", func(s *scene) {
			s.refused["/dev/kfd"] = "permission denied"
		}, "kfd", doctor.Error, "permission denied"},
		{"a render node refused", "mi300x", func(s *scene) {
			s.Put(s.pci(mi300x)+"/drm/renderD128/dev", "226:128")
			s.refused["/dev/dri/renderD128"] = "permission denied"
		}, "kfd", doctor.Error, "/dev/dri/renderD128 cannot be opened: permission denied"},
		{"memory of an AMD GPU that failed", "mi300x", func(s *scene) {
			s.Put(s.pci(mi300x)+"/ras/umc_err_count", "ue: 3\nce: 40")
			s.Put(s.pci(mi300x)+"/ras/gfx_err_count", "ue: 0\nce: 1")
		}, "amd-errors", doctor.Warning, "1 GPU had uncorrectable errors: " + mi300x + " (umc 3)"},
		{"an AMD GPU that was reset", "mi300x", func(s *scene) {
			s.log = "6,1,2,-;amdgpu " + mi300x +
				": amdgpu: GPU reset begin!\n6,1,3,-;amdgpu 0000:ff:00.0: amdgpu: GPU reset begin!\n6,2,4,-;amdgpu " + mi300x +
				": amdgpu: GPU reset(1) succeeded!"
		}, "amd-errors", doctor.Warning, "1 GPU was reset since the boot: " + mi300x + " (once)"},
		{"a hot AMD GPU", "mi300x", func(s *scene) {
			for file, value := range map[string]int{
				"temp2_input": 101000, "temp2_crit": 100000, "temp3_input": 50000,
				"temp3_crit": 105000, "power1_cap": 750000000, "power1_cap_default": 750000000,
			} {
				s.Put(s.pci(mi300x)+"/hwmon/hwmon4/"+file, value)
			}
		}, "amd-slowed", doctor.Warning, "(101 °C)"},
		{"a small BAR", "mi300x", func(s *scene) {
			s.Put(s.pci(mi300x)+"/mem_info_vram_total", 192<<30)
			s.Put(s.pci(mi300x)+"/mem_info_vis_vram_total", 256<<20)
		}, "large-bar", doctor.Warning, mi300x + " (256 MiB of 192 GiB)"},
		{"an AMD GPU less", "mi300x", func(s *scene) {
			s.Remove("sys/class/kfd/kfd/topology/nodes/9")
		}, "gpu-count", doctor.Warning, "it has 7 GPUs, 2 others 8 GPUs"},
	})
}

func TestSickAdapters(t *testing.T) {
	testFaults(t, []fault{
		{"no subnet manager", "dgx-h100", func(s *scene) {
			s.Put(s.port("mlx5_0")+"/state", "2: INIT")
		}, "", "", "rdma-port rdma-count"},
		{"port down", "dgx-h100", func(s *scene) {
			s.Put(s.port("mlx5_0")+"/state", "1: DOWN")
			s.Put(s.port("mlx5_0")+"/phys_state", "2: Polling")
		}, "", "", "rdma-port rdma-count"},
		{"an adapter less", "dgx-h100", func(s *scene) {
			s.Remove("sys/class/infiniband/mlx5_11")
		}, "rdma-count", doctor.Warning, "active RDMA ports"},
		{"a slow cable", "dgx-h100", func(s *scene) {
			s.Put(s.port("mlx5_0")+"/rate", "100 Gb/sec (1X NDR)")
		}, "rdma-rate", doctor.Warning, "mlx5_0:1 runs at 100 Gb/s"},
		{"another link layer", "dgx-h100", func(s *scene) {
			s.Put(s.port("mlx5_0")+"/link_layer", "Ethernet")
		}, "", "", "link-layer link-layer"},
		{"no RoCE v2", "mi300x", func(s *scene) {
			for i := range 5 {
				s.Put(fmt.Sprintf("%s/gids/%d", s.port("bnxt_re0"), i), "0000:0000:0000:0000:0000:0000:0000:0000")
			}
		}, "roce-gid", doctor.Warning, "bnxt_re0:1"},
		{"a limited member", "dgx-h100", func(s *scene) {
			s.Put(s.port("mlx5_0")+"/pkeys/0", "0x7fff")
		}, "pkey", doctor.Warning, "limited"},
		{"verbs refused", "dgx-h100", func(s *scene) {
			s.refused["/dev/infiniband/uverbs0"] = "permission denied"
		}, "uverbs", doctor.Error, "1 RDMA device"},
		{"container without /dev/infiniband", "dgx-h100", func(s *scene) {
			s.Put(".dockerenv", "")
			s.Remove("dev/infiniband")
		}, "uverbs", doctor.Error, "RDMA devices"},
		{"64 KiB, and nothing else", "cloud-8gpu-vm", func(s *scene) {
			s.limits["memlock"] = doctor.Limit{Soft: 64 << 10}
			s.limits["nofile"] = doctor.Limit{Soft: 100, Hard: 100}
		}, "nofile", doctor.Warning, ""},
	})
}
