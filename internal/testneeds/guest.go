package testneeds

import (
	"os"
	"path/filepath"
	"testing"
)

// LayerQemu is an emulator of an amd64 machine and a kernel for it.
const LayerQemu Layer = "qemu"

// Guest returns an emulator of amd64 machines and the kernel that .ci/setup fetched for it.
func Guest(t testing.TB) (qemu, kernel string) {
	t.Helper()
	qemu = Program(t, LayerQemu, "qemu-system-x86_64")
	kernel = filepath.Join(Repository(t), "build", "guest", "vmlinuz")
	if _, err := os.Stat(kernel); err != nil {
		Skip(t, LayerQemu, err.Error()+"; .ci/setup fetches it as root on Debian")
	}
	return qemu, kernel
}
