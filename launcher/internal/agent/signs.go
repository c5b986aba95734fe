package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/wire"
	nvml "gorun/placement/nvml/worker"
)

// networkBytes counts what has passed through all network interfaces of this host but loopback, which other jobs use,
// too, and where the ranks' own sockets count. An InfiniBand port counts words of 4 bytes.
func networkBytes() (sum int64) {
	for pattern, unit := range map[string]int64{
		"/sys/class/net/*/statistics/[rt]x_bytes":                 1,
		"/sys/class/infiniband/*/ports/*/counters/port_*mit_data": 4,
		"/sys/class/infiniband/*/ports/*/counters/port_rcv_data":  4,
	} {
		files, _ := filepath.Glob(pattern) // the pattern is good
		for _, file := range files {
			if strings.Contains(file, "/net/lo/") {
				continue
			}
			text, _ := os.ReadFile(file) // 0 where a port has no counter
			n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			sum += unit * n
		}
	}
	return sum
}

// gpuTime bounds the question to NVIDIA's driver.
const gpuTime = 5 * time.Second

// gpuUse returns what the GPUs of this host do, if it has any.
func (j *job) gpuUse() (list []wire.GPUUse) {
	if _, err := os.Stat("/proc/driver/nvidia"); err != nil {
		return nil
	}
	program := j.agent.cfg.NVML
	program.Child = func(c *exec.Cmd) nvml.Child { return &child.Cmd{Cmd: c} }
	facts, _ := program.FactsWithin(gpuTime) // else their use is not known
	for _, g := range facts.GPUs {
		list = append(list, wire.GPUUse{
			PCI: g.PCI, Busy: g.Busy, Memory: g.Taken, Power: g.Power, Temperature: g.Temperature,
			Slowed: g.Health != nil && len(g.Health.Slowed) > 0,
		})
	}
	return list
}
