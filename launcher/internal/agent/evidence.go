package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
)

// evidence returns what this host knows of failures, without asking anybody who may be slow.
func (j *job) evidence() []wire.File {
	kernel := wire.File{Name: "kernel-log.txt"}
	var err error
	if kernel.Text, err = process.KernelLog(j.agent.since); err != nil {
		kernel.Error = err.Error() + "; `sudo dmesg` shows it"
	}
	var network bytes.Buffer
	for _, pattern := range []string{
		"/sys/class/net/*/statistics/*", "/sys/class/infiniband/*/ports/*/hw_counters/*",
		"/sys/class/infiniband/*/ports/*/counters/*",
	} {
		files, _ := filepath.Glob(pattern) // the pattern is good
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && string(text) != "0\n" {
				fmt.Fprintf(&network, "%s %s", file, text)
			}
		}
	}
	pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern") // empty where /proc is not the kernel's
	files := []wire.File{
		kernel, {Name: "network-counters.txt", Text: network.Bytes()}, {Name: "core-pattern.txt", Text: pattern},
	}
	return append(files, j.readDumps()...)
}
