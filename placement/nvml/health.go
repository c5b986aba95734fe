//go:build cgo

package nvml

import (
	"errors"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gorun/placement/gpufacts"
)

// computeModes are those that keep programs from a GPU, or all but one.
var computeModes = map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive thread", nvml.COMPUTEMODE_PROHIBITED: "prohibited",
	nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive process",
}

// slowdowns are bits of the reasons for a lower clock. An idle GPU, and a limit of power
// that somebody set, are none.
var slowdowns = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "thermal slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
	{nvml.ClocksThrottleReasonSwThermalSlowdown, "thermal slowdown by the driver"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"}, // said beside the first two, too
}

func (d *device) Health() (h gpufacts.Health, err error) {
	told := 0
	for _, ask := range []func(*gpufacts.Health) error{d.persistence, d.computeMode, d.slowed, d.eccErrors, d.remappedRows, d.retiredPages} {
		switch err := ask(&h); {
		case err == nil:
			told++
		case !errors.Is(err, errNotTold):
			return h, err
		}
	}
	if told == 0 {
		return h, errNotTold
	}
	return h, nil
}

func (d *device) persistence(h *gpufacts.Health) error {
	mode, err := call(d.nvidia, "nvmlDeviceGetPersistenceMode", d.d.GetPersistenceMode)
	h.NoPersistence = err == nil && mode == nvml.FEATURE_DISABLED
	return err
}

func (d *device) computeMode(h *gpufacts.Health) error {
	mode, err := call(d.nvidia, "nvmlDeviceGetComputeMode", d.d.GetComputeMode)
	if err == nil {
		h.Mode = computeModes[mode]
	}
	return err
}

func (d *device) slowed(h *gpufacts.Health) error {
	reasons, err := call(d.nvidia, "nvmlDeviceGetCurrentClocksThrottleReasons", d.d.GetCurrentClocksThrottleReasons)
	for _, s := range slowdowns {
		if err == nil && reasons&s.bit != 0 && (s.bit != nvml.ClocksThrottleReasonHwSlowdown || h.Slowed == nil) {
			h.Slowed = append(h.Slowed, s.name)
		}
	}
	return err
}

func (d *device) eccErrors(h *gpufacts.Health) error {
	n, err := call(d.nvidia, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
		return d.d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	})
	if err == nil {
		h.Uncorrected = int64(min(n, 1<<62))
	}
	return err
}

// remappedRows are how GPUs since Ampere replace bad memory, retired pages how those before
// did.
func (d *device) remappedRows(h *gpufacts.Health) error {
	_, err := call(d.nvidia, "nvmlDeviceGetRemappedRows", func() (struct{}, nvml.Return) {
		_, _, pending, failed, ret := d.d.GetRemappedRows()
		if ret == nvml.SUCCESS {
			h.Pending, h.Broken = h.Pending || pending, h.Broken || failed
		}
		return struct{}{}, ret
	})
	return err
}

func (d *device) retiredPages(h *gpufacts.Health) error {
	pending, err := call(d.nvidia, "nvmlDeviceGetRetiredPagesPendingStatus", d.d.GetRetiredPagesPendingStatus)
	h.Pending = h.Pending || err == nil && pending == nvml.FEATURE_ENABLED
	return err
}
