package doctor_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/doctor"
	"gorun/placement"
	"gorun/placement/gpufacts"
)

//go:generate go test -run ^TestDocs$ -count=1 . -update

var update = flag.Bool("update", false, "write the table of docs/reference/checks.md instead of comparing it")

// Every check says what it is for, and belongs to a group.
func TestChecks(t *testing.T) {
	groups := map[string]bool{}
	for _, g := range doctor.Groups() {
		groups[g.Name] = true
	}
	seen := map[string]bool{}
	for _, c := range doctor.Checks() {
		require.Regexp(t, `^[a-z0-9]+(-[a-z0-9]+)*$`, c.ID)
		require.False(t, seen[c.ID], c.ID)
		seen[c.ID] = true
		require.True(t, groups[c.Group], c.Group)
		require.NotContains(t, c.What, "\n")
		require.NotRegexp(t, `[.]$`, c.What)
		require.Regexp(t, `[.)']$`, c.Why)
		require.Empty(t, doctor.Diagnose(&doctor.Cluster{}, c.ID), "nothing is known, so nothing is reported")
		two := &doctor.Cluster{Asked: 2, Hosts: []*doctor.Host{{Name: "a"}, {Name: "b"}}}
		require.Empty(t, doctor.Diagnose(two, c.ID), c.ID)
		found, ok := doctor.Find(c.ID)
		require.True(t, ok)
		require.Equal(t, c.What, found.What)
	}
	_, ok := doctor.Find("nothing")
	require.False(t, ok)
}

func program(name, sum string) *doctor.Host {
	return &doctor.Host{Name: name, Program: &doctor.Program{Path: "/trainer", Size: 9, SHA256: strings.Repeat(sum, 64)}}
}

// What is the same on several hosts is one finding, the worst stand first, and what is
// well names the groups without findings.
func TestJudge(t *testing.T) {
	slow := &doctor.Clock{Ahead: 7.2, Uncertainty: 0.004}
	c := &doctor.Cluster{
		Gorun: "v2", Asked: 5, Program: "trainer",
		Hosts: []*doctor.Host{program("n1", "a"), program("n2", "a"), program("n3", "b"), program("n4", "a")},
	}
	c.Hosts[1].Clock, c.Hosts[3].Clock = slow, slow
	c.Hosts[0].Notes = []doctor.Finding{{Severity: doctor.Note, Text: "NCCL_TIMEOUT means nothing"}}
	c.Notes = []doctor.Finding{{Severity: doctor.Warning, Text: "NCCL_ALGO is forced", Fix: "unset NCCL_ALGO"}}
	c.Found = []doctor.Finding{
		{Check: doctor.Reach, Severity: doctor.Error, Hosts: []string{"n5"}, Text: "no route to host"},
		{
			Check: doctor.Unreachable, Severity: doctor.Error, Hosts: []string{"n2"},
			Text: "it does not reach n[3-4]: timed out",
		},
	}
	for _, h := range c.Hosts {
		lookedAt(h)
	}
	var lines []string
	for _, f := range doctor.Diagnose(c) {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Check, f.Where(), f.Text))
	}
	assert.Equal(t, []string{
		"error reach n5: no route to host",
		"error program-differs n3: /trainer is another file than on 3 others",
		"error unreachable n2: it does not reach n[3-4]: timed out",
		"warning clock n[2,4]: its clock is 7.2 s ahead of this host's",
		"warning environment n[1-4]: NCCL_ALGO is forced",
		"note environment n1: NCCL_TIMEOUT means nothing",
	}, lines)
	assert.Equal(t, 5, doctor.CountProblems(doctor.Diagnose(c)))
	assert.Equal(t, []string{"limits", "memory", "kernel", "host names", "nothing left of dead jobs"},
		doctor.Healthy(c, doctor.Diagnose(c)))
}

// lookedAt gives a host what has nothing wrong with it.
func lookedAt(h *doctor.Host) {
	h.Limits, h.Shm, h.Memory.Total = map[string]doctor.Limit{},
		&doctor.FileSystem{Type: "tmpfs", Total: 1 << 40, Free: 1 << 40}, 1<<40
	h.Kernel, h.Names, h.ProcessesKnown = "6.8.0", &doctor.Names{}, true
	h.Machine.CPUs = placement.CPUSetOf([]uint64{15})
}

// Of a host that was not looked at in time nothing is said: neither that it is well nor
// that it lacks what others have.
func TestNotLookedAt(t *testing.T) {
	c := &doctor.Cluster{Asked: 3}
	for _, name := range []string{"n1", "n2", "n3"} {
		h := &doctor.Host{Name: name}
		lookedAt(h)
		h.Machine.GPUs = []placement.GPU{{Vendor: placement.NVIDIA, PCI: "0000:1b:00.0"}}
		h.RDMA = []doctor.Port{{Device: "mlx5_0", Port: 1, Layer: "InfiniBand", State: "ACTIVE", GID: -1}}
		h.Libraries = map[string]string{"libibverbs.so.1": "/usr/lib/libibverbs.so.1"}
		c.Hosts = append(c.Hosts, h)
	}
	require.Zero(t, doctor.CountProblems(doctor.Diagnose(c)), "%v", doctor.Diagnose(c))
	require.Contains(t, doctor.Healthy(c, nil), "memory")
	c.Hosts[1] = &doctor.Host{Name: "n2", Unknown: []string{"CPUs and GPUs: no answer within 3s"}}
	assert.Zero(t, doctor.CountProblems(doctor.Diagnose(c)), "%v", doctor.Diagnose(c))
	assert.Equal(t, []string{"3 of 3 hosts reached, same gorun", "1 GPU a host", "1 RDMA port up a host"},
		doctor.Healthy(c, doctor.Diagnose(c)))
	c.Hosts[1].Machine.CPUs = placement.CPUSetOf([]uint64{15})
	assert.Equal(t, 2, doctor.CountProblems(doctor.Diagnose(c)),
		"looked at, and without GPUs and adapters: %v", doctor.Diagnose(c))
}

// Cards with bridges in pairs, and one without, lack nothing; a GPU at a switch does.
func TestNVLinkBridges(t *testing.T) {
	bridged := func(switched int) int {
		first, second, lone := gpufacts.GPU{PCI: "a", Switched: switched}, gpufacts.GPU{PCI: "b", Switched: switched},
			gpufacts.GPU{PCI: "c", Down: 4}
		if switched == 0 {
			first.Links, second.Links = map[string]int{"b": 4}, map[string]int{"a": 4}
		}
		h := &doctor.Host{
			Name:   "n1",
			NVIDIA: &doctor.NVIDIA{Facts: gpufacts.Facts{GPUs: []gpufacts.GPU{first, second, lone}}},
		}
		return doctor.CountProblems(doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}}))
	}
	assert.Equal(t, 0, bridged(0))
	assert.Equal(t, 1, bridged(4))
}

// Where each AMD GPU but a few has a link to each other one, those few lack some; how
// machines are built in which few have is nobody's business.
func TestXGMI(t *testing.T) {
	h := &doctor.Host{Name: "n1"}
	for i := range 8 {
		g := placement.GPU{Vendor: placement.AMD, PCI: fmt.Sprint("gpu", i)}
		for other := range 8 {
			if other != i && (min(i, other) != 0 || max(i, other) != 1) {
				g.Links = append(g.Links, placement.Link{Peer: fmt.Sprint("gpu", other), Kind: "xgmi", Count: 1})
			}
		}
		h.Machine.GPUs = append(h.Machine.GPUs, g)
	}
	findings := doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}})
	require.Len(t, findings, 1)
	assert.Equal(t, "2 GPUs lack xGMI links to others: gpu0 (to 6 of 7), gpu1 (to 6 of 7)", findings[0].Text)
	for i := range h.Machine.GPUs {
		h.Machine.GPUs[i].Links = h.Machine.GPUs[i].Links[:2]
	}
	assert.Empty(t, doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}}))
}

// Versions are numbers: the finding names the host with the older one.
func TestFirmware(t *testing.T) {
	c := &doctor.Cluster{}
	for i, version := range []string{"28.9.1002", "28.39.1002", "28.39.1002", "28.39.900"} {
		c.Hosts = append(c.Hosts, &doctor.Host{Name: fmt.Sprint("n", i), RDMA: []doctor.Port{
			{Device: "mlx5_0", Port: 1, Layer: "InfiniBand", State: "ACTIVE", Board: "MT_0838", Firmware: version},
		}})
	}
	c.Asked = len(c.Hosts)
	var behind []string
	for _, f := range doctor.Diagnose(c) {
		if f.Check == "rdma-firmware" {
			assert.Equal(t, "adapters MT_0838 have firmware of several versions: 28.9.1002, 28.39.900, 28.39.1002", f.Text)
			behind = append(behind, f.Hosts...)
		}
	}
	assert.Equal(t, []string{"n0", "n3"}, behind)
}

func TestReach(t *testing.T) {
	c := &doctor.Cluster{
		Gorun: "v2", Asked: 1,
		Hosts: []*doctor.Host{{Name: "n1", Gorun: "v1", Unknown: []string{"libraries: no answer within 3s"}}},
	}
	c.Found = []doctor.Finding{
		{Check: doctor.NoAddress, Severity: doctor.Error, Hosts: []string{"n1"}, Text: "no address of n1 is reached by all"},
	}
	findings := doctor.Diagnose(c)
	require.Len(t, findings, 3)
	assert.Equal(t, "no-address", findings[0].Check)
	assert.Equal(t, "its gorun is v1, this one v2", findings[1].Text)
	assert.Equal(t, doctor.Note, findings[2].Severity)
}

// Programs, directories and rooms that are not what they should be.
func TestProgram(t *testing.T) {
	for _, test := range []struct {
		host  doctor.Host
		check string
		text  string
	}{
		{
			doctor.Host{Program: &doctor.Program{Dir: "/work", NoDir: "no such file or directory", Error: "missing"}},
			"program", "the working directory /work: no such file or directory",
		},
		{doctor.Host{Program: &doctor.Program{Error: "./trainer: no such file"}}, "program", "./trainer: no such file"},
		{
			doctor.Host{Architecture: "aarch64", Program: &doctor.Program{Path: "/trainer", ELF: "x86_64"}},
			"architecture",
			"/trainer is built for x86_64 and runs slowly: the kernel emulates that on aarch64",
		},
		{
			doctor.Host{DiskSpace: []doctor.DiskSpace{{Purpose: "temporary files", Path: "/tmp", Free: 4096}}},
			"room",
			"almost no space is left in /tmp (temporary files)",
		},
		{
			doctor.Host{DiskSpace: []doctor.DiskSpace{
				{Purpose: "temporary files", Path: "/tmp", Error: "read-only file system"},
			}},
			"room", "/tmp (temporary files): read-only file system",
		},
	} {
		test.host.Name = "n1"
		findings := doctor.Diagnose(&doctor.Cluster{Asked: 1, Program: "./trainer", Hosts: []*doctor.Host{&test.host}})
		require.Len(t, findings, 1, "%v", findings)
		assert.Equal(t, test.check, findings[0].Check)
		assert.Equal(t, test.text, findings[0].Text)
		assert.NotEmpty(t, findings[0].Fix)
	}
}

// With a program that cannot be started comes a command that helps, not one that shows the same
// again.
func TestWayOutOfAProgram(t *testing.T) {
	for _, test := range []struct {
		program, fault, hint string
		away                 bool
		text, fix            string
	}{
		{"./run", "./run: is closed", "run `chmod +x ./run`", false, "./run: is closed", "chmod +x ./run"},
		{"./run", "./run: is closed", "run `chmod +x ./run`", true, "./run: is closed", "chmod +x ./run"},
		{"./a.sh", "./a.sh: is closed", "run `gorun sh ./a.sh`", false, "./a.sh: is closed", "gorun sh ./a.sh"},
		{
			"pyhton3", "pyhton3: not found in PATH or the working directory", "did you mean python3?", false,
			"pyhton3: not found in PATH or the working directory; did you mean python3?", "gorun doctor python3",
		},
		{
			"nothing", "nothing: not found in PATH or the working directory", "", false,
			"nothing: not found in PATH or the working directory",
			`echo "$PATH" # where a name without a / is looked for; ./NAME is in the working directory`,
		},
		{"bin/a b", "bin/a b: no such file", "", false, "bin/a b: no such file", "ls -l bin # where it is looked for"},
		{"./nothing", "./nothing: no such file", "", false, "./nothing: no such file", "ls -l . # where it is looked for"},
		{
			"./nothing", "./nothing: no such file", "", true, "./nothing: no such file",
			"gorun --copy ./nothing ... # sends it to each host",
		},
		{
			"a b", "a b: permission denied: this user may not execute it", "", false,
			"a b: permission denied: this user may not execute it", "ls -l 'a b'",
		},
	} {
		h := doctor.Host{Name: "n1", Here: !test.away, Program: &doctor.Program{Error: test.fault, Hint: test.hint}}
		findings := doctor.Diagnose(&doctor.Cluster{Asked: 1, Program: test.program, Hosts: []*doctor.Host{&h}})
		require.Len(t, findings, 1)
		assert.Equal(t, test.text, findings[0].Text)
		assert.Equal(t, test.fix, findings[0].Fix)
	}
}

// What a laptop's graphics or a GPU beside its CPU lacks is nobody's loss.
func TestNoFalseAlarms(t *testing.T) {
	wrong := func(h *doctor.Host) int {
		return doctor.CountProblems(doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}}))
	}
	h := &doctor.Host{Name: "n1", AMD: &doctor.AMD{Nodes: map[string]string{"/dev/kfd": "permission denied"}}}
	assert.Equal(t, 1, wrong(h))
	h.Portable = true
	assert.Equal(t, 0, wrong(h))
	h = &doctor.Host{Name: "n1"}
	for _, pci := range []string{"a", "b"} {
		bus := &placement.Bus{Address: pci, Link: &placement.PCIeLink{Width: 16, WidthNow: 1}}
		h.Machine.GPUs = append(h.Machine.GPUs, placement.GPU{
			Vendor: placement.NVIDIA, PCI: pci, Name: "NVIDIA H100",
			Bus: bus,
		})
	}
	assert.Equal(t, 1, wrong(h))
	for i := range h.Machine.GPUs {
		h.Machine.GPUs[i].Name = "NVIDIA GB200"
	}
	assert.Equal(t, 0, wrong(h))
}

// Commands are for the kind of container that it is, and a limit that the shell may raise
// needs no administrator.
func TestCommandsFitTheHost(t *testing.T) {
	for _, test := range []struct {
		container string
		here      bool
		hard      int64
		uid       int
		want      string
	}{
		{"", true, 1 << 20, 0, "ulimit -n 65536 # in the shell that starts gorun"},
		{"docker", true, -1, 0, "ulimit -n 65536 # in the shell that starts gorun"},
		{"docker", true, 2048, 0, "docker run --ulimit nofile=65536 ..."},
		{"podman", false, 1 << 20, 0, "podman run --ulimit nofile=65536 ..."},
		{"", false, 2048, 0, "echo 'root - nofile 65536' | sudo tee /etc/security/limits.d/90-nofile.conf # then log " +
			"in again; systemd services need LimitNOFILE="},
		{"apptainer", false, 2048, 1000, "echo '* - nofile 65536' | sudo tee /etc/security/limits.d/90-nofile.conf # then " +
			"log in again; systemd services need LimitNOFILE="},
	} {
		h := &doctor.Host{
			Name: "n1", Here: test.here, Container: test.container, UID: test.uid,
			Limits: map[string]doctor.Limit{"nofile": {Soft: 100, Hard: test.hard}},
		}
		findings := doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}})
		require.Len(t, findings, 1)
		assert.Equal(t, test.want, findings[0].Fix)
	}
}

func TestCommandsForDrivers(t *testing.T) {
	h := &doctor.Host{
		Name: "n1", NVIDIA: &doctor.NVIDIA{Driver: "570.86.15"}, Python: doctor.Python{CUDA: "12.8"},
	}
	h.NVIDIA.Facts = gpufacts.Facts{CUDA: "11.4", Error: "Driver/library version mismatch"}
	findings := doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}})
	require.Len(t, findings, 2)
	assert.Equal(t, "sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe -a nvidia nvidia_uvm "+
		"# or a reboot", findings[0].Fix, "rmmod fails if one is not loaded")
	assert.Contains(t, findings[1].Fix, "/whl/cu118 ", "there is no cu116 of a current PyTorch")
}

// A name that another user chose is one word of the command that removes it.
func TestCommandsQuote(t *testing.T) {
	h := &doctor.Host{Name: "n1", ShmFiles: []doctor.ShmFile{{Name: "nccl-a b;$(reboot)'", Size: 1}}}
	findings := doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}})
	require.Len(t, findings, 1)
	assert.Equal(t, `rm /dev/shm/'nccl-a b;$(reboot)'\'''`, findings[0].Fix)
	h = &doctor.Host{
		Name: "n1", Architecture: "x86_64", UID: 1000, User: "$(reboot)", RemoveIPC: "yes",
		Program: &doctor.Program{Path: "/a b", ELF: "aarch64"},
	}
	h.Interfaces = []doctor.Interface{{Name: "e;reboot", Physical: true, Carrier: true, Duplex: "half"}}
	var fixes []string
	for _, f := range doctor.Diagnose(&doctor.Cluster{Asked: 1, Hosts: []*doctor.Host{h}}) {
		fixes = append(fixes, f.Fix)
	}
	assert.ElementsMatch(t, []string{"file '/a b'", "sudo loginctl enable-linger '$(reboot)'", "ethtool 'e;reboot'"},
		fixes)
}

// TestDocs keeps the table of docs/reference/checks.md equal to the checks.
func TestDocs(t *testing.T) {
	const begin, end = "<!-- the checks: written by \"make docs\" -->\n", "<!-- end of the checks -->\n"
	page := filepath.Join(testneeds.Repository(t), "docs", "reference", "checks.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	old, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	var table strings.Builder
	table.WriteString("| check | looks at | why |\n| --- | --- | --- |\n")
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, g := range doctor.Groups() {
		for _, c := range slices.DeleteFunc(doctor.Checks(), func(c doctor.Check) bool { return c.Group != g.Name }) {
			fmt.Fprintf(&table, "| <a id=\"%s\"></a>`%[1]s` | %s | %s |\n", c.ID, escape.Replace(c.What), escape.Replace(c.Why))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(head+begin+table.String()+end+tail), 0o644))
		return
	}
	require.Equal(t, table.String(), old, "docs/reference/checks.md is stale: make docs")
}
