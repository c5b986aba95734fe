package testneeds

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// LayerHosts is what internal/testhosts needs: root, namespaces, iproute2, util-linux and OpenSSH.
const LayerHosts Layer = "hosts"

// Hosts skips unless internal/testhosts works on this machine.
func Hosts(t testing.TB) {
	t.Helper()
	if err := FindHosts(); err != nil {
		Skip(t, LayerHosts, err.Error())
	}
}

// FindHosts returns what internal/testhosts lacks on this machine, as an error. It checks once per process.
var FindHosts = sync.OnceValue(func() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("runs as user id %d, and namespaces need 0", uid)
	}
	for _, program := range []string{"ip", "nsenter", "unshare", "mount", "getent", "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; .ci/setup installs it as root on Debian", err)
		}
	}
	if _, err := SSHD(); err != nil {
		return err
	}
	const network = "link add probe0 type bridge\nlink add probe1 type veth peer name probe2\n" +
		"link set probe1 master probe0 up\n"
	probe := exec.Command("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc", "ip",
		"-batch", "-")
	probe.Stdin = strings.NewReader(network)
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("make namespaces with a bridge and a veth: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
})

// SSHD returns the path of OpenSSH's server.
func SSHD() (string, error) { return Daemon("sshd") }
