//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gorun/placement"
	"gorun/placement/gpufacts"
)

// Linked says whether this program can ask NVIDIA's library at all.
const Linked = true

// Ask asks NVIDIA's library what it knows of this machine's GPUs, and notes where
// it fails. It takes seconds where no process holds the driver open and its
// persistence mode is off.
func Ask() gpufacts.Facts { return ask(&nvidia{lib: nvml.New()}) }

// nvidia is the library. A function that an older driver lacks must not be
// called: the dynamic linker ends the program then. So each is looked up first.
type nvidia struct {
	lib  nvml.Interface
	have map[string]bool
}

// told turns a result into an error, which is errNotTold where the driver, the
// GPU or the container does not answer.
func told(function string, ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NOT_FOUND,
		nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_NO_DATA, nvml.ERROR_DEPRECATED, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return errNotTold
	}
	return fmt.Errorf("%s: %s", function, ret.String())
}

// call asks one question.
func call[T any](n *nvidia, function string, question func() (T, nvml.Return)) (answer T, err error) {
	known, asked := n.have[function]
	if !asked {
		known = n.lib.Extensions().LookupSymbol(function) == nil
		n.have[function] = known
	}
	if !known {
		return answer, errNotTold
	}
	answer, ret := question()
	return answer, told(function, ret)
}

func (n *nvidia) Open() error {
	n.have = map[string]bool{}
	switch ret := n.lib.Init(); ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("libnvidia-ml.so.1 is not found")
	default:
		return fmt.Errorf("nvmlInit: %s", ret.String())
	}
}

func (n *nvidia) Close() { n.lib.Shutdown() }

func (n *nvidia) Count() (int, error) {
	count, ret := n.lib.DeviceGetCount()
	return count, told("nvmlDeviceGetCount", ret)
}

func (n *nvidia) GPU(i int) (gpu, error) {
	handle, ret := n.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("nvmlDeviceGetHandleByIndex: %s", ret.String())
	}
	return &device{n, handle}, nil
}

// device is a GPU of the library.
type device struct {
	*nvidia
	d nvml.Device
}

func (d *device) PCI() (string, error) {
	info, ret := d.d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return "", fmt.Errorf("nvmlDeviceGetPciInfo: %s", ret.String())
	}
	return address(info), nil
}

// address spells a PCI address as the kernel does; the library's own text has
// other digits.
func address(info nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device)
}

func (d *device) UUID() (string, error) { return call(d.nvidia, "nvmlDeviceGetUUID", d.d.GetUUID) }
func (d *device) Name() (string, error) { return call(d.nvidia, "nvmlDeviceGetName", d.d.GetName) }

func (d *device) Memory() (total, taken int64, err error) {
	info, err := call(d.nvidia, "nvmlDeviceGetMemoryInfo", d.d.GetMemoryInfo)
	return int64(info.Total), int64(info.Used), err
}

func (d *device) Busy() (int, error) {
	rates, err := call(d.nvidia, "nvmlDeviceGetUtilizationRates", d.d.GetUtilizationRates)
	return int(rates.Gpu), err
}

func (d *device) CPUs(bits int) ([]uint64, error) {
	mask, err := call(d.nvidia, "nvmlDeviceGetCpuAffinityWithinScope", func() ([]uint, nvml.Return) {
		return d.d.GetCpuAffinityWithinScope(bits, nvml.AFFINITY_SCOPE_NODE)
	})
	if err != nil { // before driver 450
		mask, err = call(d.nvidia, "nvmlDeviceGetCpuAffinity", func() ([]uint, nvml.Return) {
			return d.d.GetCpuAffinity(bits)
		})
	}
	words := make([]uint64, len(mask))
	for i, word := range mask {
		words[i] = uint64(word)
	}
	return words, err
}

func (d *device) MemoryNode() (int, error) {
	return call(d.nvidia, "nvmlDeviceGetNumaNodeId", d.d.GetNumaNodeId)
}

// p2p are the library's numbers. 0 is the good one, which is easily taken for no.
var p2p = map[nvml.GpuP2PStatus]placement.P2PStatus{
	nvml.P2P_STATUS_OK:                         placement.P2POK,
	nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:      placement.P2PChipset,
	nvml.P2P_STATUS_GPU_NOT_SUPPORTED:          placement.P2PGPU,
	nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: placement.P2PTopology,
	nvml.P2P_STATUS_DISABLED_BY_REGKEY:         placement.P2PDisabled,
	nvml.P2P_STATUS_NOT_SUPPORTED:              placement.P2PNone,
}

func (d *device) Peer(other gpu) (placement.P2PStatus, error) {
	status, err := call(d.nvidia, "nvmlDeviceGetP2PStatus", func() (nvml.GpuP2PStatus, nvml.Return) {
		return d.d.GetP2PStatus(other.(*device).d, nvml.P2P_CAPS_INDEX_READ)
	})
	if text, known := p2p[status]; known {
		return text, err
	}
	return placement.P2PUndefined, err
}

func (d *device) Link(i int) (link, error) {
	state, err := call(d.nvidia, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) {
		return d.d.GetNvLinkState(i)
	})
	if err != nil || state != nvml.FEATURE_ENABLED {
		return link{}, err
	}
	kind, err := call(d.nvidia, "nvmlDeviceGetNvLinkRemoteDeviceType", func() (nvml.IntNvLinkDeviceType, nvml.Return) {
		return d.d.GetNvLinkRemoteDeviceType(i)
	})
	if err == nil && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
		return link{up: true, toSwitch: true}, nil
	}
	remote, err := call(d.nvidia, "nvmlDeviceGetNvLinkRemotePciInfo", func() (nvml.PciInfo, nvml.Return) {
		return d.d.GetNvLinkRemotePciInfo(i)
	})
	if err != nil && err != errNotTold {
		return link{}, err
	}
	return link{up: true, peer: address(remote)}, nil
}

func (d *device) MIG() ([]string, error) {
	mode, err := call(d.nvidia, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		current, _, ret := d.d.GetMigMode()
		return current, ret
	})
	if err != nil || mode != nvml.DEVICE_MIG_ENABLE {
		return nil, err
	}
	most, err := call(d.nvidia, "nvmlDeviceGetMaxMigDeviceCount", d.d.GetMaxMigDeviceCount)
	if err != nil {
		return nil, err
	}
	var parts []string
	for i := range most { // there are holes
		part, err := call(d.nvidia, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) {
			return d.d.GetMigDeviceHandleByIndex(i)
		})
		if err != nil {
			continue
		}
		if uuid, ret := part.GetUUID(); ret == nvml.SUCCESS {
			parts = append(parts, uuid)
		}
	}
	return parts, nil
}

func (d *device) Processes() ([]int, error) {
	processes, err := call(d.nvidia, "nvmlDeviceGetComputeRunningProcesses", d.d.GetComputeRunningProcesses)
	var ids []int
	for _, p := range processes {
		ids = append(ids, int(p.Pid))
	}
	return ids, err
}

func (n *nvidia) CUDA() (string, error) {
	version, err := call(n, "nvmlSystemGetCudaDriverVersion", n.lib.SystemGetCudaDriverVersion)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10), nil
}
