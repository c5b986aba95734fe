package inspect

import (
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/doctor"
	"gorun/placement"
)

// amd reads the state of AMD's driver; nil without AMD GPUs.
func (in *inspector) amd(m placement.Machine) *doctor.AMD {
	gpus := 0
	for _, node := range in.list("sys/class/kfd/kfd/topology/nodes") {
		if id := in.text("sys/class/kfd/kfd/topology/nodes/" + node + "/gpu_id"); id != "" && id != "0" {
			gpus++
		}
	}
	usable := slices.ContainsFunc(m.GPUs, func(g placement.GPU) bool { return g.Vendor == placement.AMD })
	if gpus == 0 && !usable {
		return nil
	}
	a := &doctor.AMD{Driver: in.text("sys/module/amdgpu/version"), Nodes: map[string]string{}}
	if why := in.System.Access("/dev/kfd"); why != "" && (usable || in.container() == "") {
		a.Nodes["/dev/kfd"] = why
	}
	for _, g := range m.GPUs {
		device, _, _ := strings.Cut(g.PCI, ".") // compute partitions have made-up function numbers
		if g.Vendor == placement.AMD && !slices.ContainsFunc(a.GPUs, func(o doctor.AMDGPU) bool {
			return o.PCI == device+".0"
		}) {
			a.GPUs = append(a.GPUs, in.amdGPU(device+".0"))
		}
	}
	for _, g := range a.GPUs {
		for _, name := range in.list(pciDir + "/" + g.PCI + "/drm") {
			node := "/dev/dri/" + name
			if why := in.System.Access(node); why != "" && strings.HasPrefix(name, "renderD") &&
				(in.exists(node) || in.container() == "") {
				a.Nodes[node] = why
			}
		}
	}
	return a
}

// amdGPU reads what the driver reports about a GPU.
func (in *inspector) amdGPU(address string) doctor.AMDGPU {
	g := doctor.AMDGPU{PCI: address, Uncorrected: map[string]int64{}}
	dir := pciDir + "/" + address
	for _, name := range in.list(dir + "/ras") {
		block, ok := strings.CutSuffix(name, "_err_count")
		if n := fieldNumber(in.text(dir+"/ras/"+name), "ue:"); ok && n > 0 {
			g.Uncorrected[block] = n
		}
	}
	g.Memory, g.Visible = in.natural(dir+"/mem_info_vram_total"), in.natural(dir+"/mem_info_vis_vram_total")
	for _, name := range in.list(dir + "/hwmon") {
		in.sensors(&g, dir+"/hwmon/"+name)
	}
	return g
}

// sensors reads a GPU's sensors, in millidegrees and microwatts. Source: the kernel's
// Documentation/gpu/amdgpu/thermal.rst.
func (in *inspector) sensors(g *doctor.AMDGPU, dir string) {
	for n := 1; n <= 3; n++ { // edge, junction, memory
		file := dir + "/temp" + strconv.Itoa(n)
		now, ok1 := in.number(file + "_input")
		critical, ok2 := in.number(file + "_crit")
		if ok1 && ok2 && critical > 0 && (g.Critical == 0 || float64(critical-now)/1000 < g.Critical-g.Hottest) {
			g.Hottest, g.Critical = float64(now)/1000, float64(critical)/1000
		}
	}
	limit, ok1 := in.number(dir + "/power1_cap")
	usual, ok2 := in.number(dir + "/power1_cap_default")
	if ok1 && ok2 {
		g.PowerCap, g.PowerDefault = float64(limit)/1e6, float64(usual)/1e6
	}
}

// countResets counts the resets in the kernel's log:
//
//	amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!
func countResets(log []byte, gpus []doctor.AMDGPU) {
	for line := range strings.Lines(string(log)) {
		_, rest, ok := strings.Cut(line, "amdgpu ")
		if !ok || !strings.Contains(rest, "GPU reset begin") {
			continue
		}
		for i := range gpus {
			if strings.HasPrefix(rest, gpus[i].PCI+":") {
				gpus[i].Resets++
			}
		}
	}
}
