package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeSMI puts an nvidia-smi that prints text first in PATH.
func fakeSMI(t *testing.T, text string, code string) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncat <<'END'\n" + text + "\nEND\nexit " + code + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestWithoutGPU(t *testing.T) {
	for text, why := range map[string]string{
		"No devices found.": "not run: No devices found. (nvidia-smi lists no GPU)",
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": "not run: NVIDIA-SMI has failed " +
			"because it couldn't communicate with the NVIDIA driver. (nvidia-smi -L: exit status 9)",
	} {
		code := map[bool]string{true: "9", false: "0"}[strings.Contains(why, "status 9")]
		fakeSMI(t, text, code)
		c := &runner{limit: time.Minute, only: regexp.MustCompile("")}
		require.Zero(t, c.run(t.Context(), []step{{name: "never", commands: []string{"exit 1"}}}))
		require.Equal(t, why, c.summary)
		require.Contains(t, c.report.String(), "not run: ")
	}
}

// Each step has its own result, and nothing that it started is left.
func TestSteps(t *testing.T) {
	fakeSMI(t, "GPU 0: NVIDIA H100 (UUID: GPU-1)\nGPU 1: NVIDIA H100 (UUID: GPU-2)", "0")
	left := filepath.Join(t.TempDir(), "left")
	c := &runner{limit: time.Minute, only: regexp.MustCompile("")}
	failed := c.run(t.Context(), []step{
		{name: "good", commands: []string{"echo $N GPUs", "sleep 1000 & echo $! > " + left}, want: "2 GPUs"},
		{name: "bad", commands: []string{"echo of no use; false; echo never", "echo never"}},
		{name: "unlike", commands: []string{"echo a"}, want: "b"},
		{name: "slow", commands: []string{"sleep 1000 | cat"}, limit: 50 * time.Millisecond},
		{name: "lacks", needs: []string{"GPUs:3"}, commands: []string{"exit 1"}},
		{name: "lacks a program", needs: []string{"no-such-program"}, commands: []string{"exit 1"}},
		{name: "says so", commands: []string{"echo no MIG; exit 77"}},
		{name: "judged", commands: []string{"echo x"}, check: func(outputs []string) error {
			require.Equal(t, []string{"x\n"}, outputs)
			return joined([]string{"GPU0 | GPU1: wrong", "more"})
		}},
	})
	require.Equal(t, 4, failed)
	require.Equal(t, "2 GPUs: 1 passed, 4 failed, 3 not run", c.summary)
	report := c.report.String()
	for _, row := range []string{
		`\| good \| passed \| \d+ s \|  \|`, `\| bad \| FAILED \| \d+ s \| exit status 1: of no use \|`,
		`\| unlike \| FAILED \| \d+ s \| its output has nothing like b \|`,
		`\| slow \| FAILED \| \d+ s \| it took more than 50ms \|`,
		`\| lacks \| not run \| \d+ s \| it needs 3 GPUs, there is 2 \|`,
		`\| lacks a program \| not run \| \d+ s \| no-such-program is not in PATH \|`,
		`\| says so \| not run \| \d+ s \| no MIG \|`,
		`\| judged \| FAILED \| \d+ s \| GPU0 \\\| GPU1: wrong \|`,
	} {
		require.Regexp(t, `(?m)^`+strings.TrimSuffix(row, "$")+`$`, report)
	}
	require.Contains(t, report, "$ echo of no use; false; echo never\nof no use\n~~~~")
	pid, err := os.ReadFile(left)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, time.Minute, time.Millisecond)
}

// smiMatrix is what nvidia-smi 550 prints: tabs, an underlined head, more columns than devices.
const smiMatrix = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
	"GPU0\t X \tNV18\tPXB\t0-55,112-167\t0\t\tN/A\nGPU1\tNV18\t X \tNODE\t0-55,112-167\t0\t\tN/A\n" +
	"NIC0\tPXB\tNODE\t X \t\t\t\t\n" +
	"\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n" +
	"  NIC0: mlx5_3\n"

// gorunMatrix is what gorun topo prints of the same machine, in blocks, and of one adapter more, before the other.
const gorunMatrix = "2 packages\n\n      GPU0  GPU1\nGPU0  X     NV18\nGPU1  NV18  X\n\n" +
	"      NIC0  NIC1  CPU Affinity  NUMA Affinity\nGPU0  SYS   PXB   0-55,112-167  0\n" +
	"GPU1  SYS   NODE  0-55,112-167  0\n\n" +
	"Legend:\n  X     the device itself\n\nNICs:\n  NIC0: mlx5_0  NIC1: mlx5_3\n"

func TestSameMatrix(t *testing.T) {
	cells := parseMatrix(smiMatrix)
	require.Len(t, cells, 9)
	require.Equal(t, "PXB", cells["GPU0 mlx5_3"])
	require.NoError(t, sameMatrix([]string{smiMatrix, gorunMatrix}))
	require.EqualError(t, sameMatrix([]string{smiMatrix, strings.Replace(gorunMatrix, "SYS   NODE", "SYS   SYS", 1)}),
		"GPU1 mlx5_3: nvidia-smi says NODE, gorun SYS")
	require.ErrorContains(t, sameMatrix([]string{smiMatrix, "      GPU0\nGPU0  X\n"}),
		"GPU0 GPU1 is not in gorun's matrix")
	require.NoError(t,
		sameMatrix([]string{"\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n", "      GPU0  CPU Affinity\nGPU0  X     0-7\n"}),
		"one GPU")
	require.ErrorContains(t, sameMatrix([]string{"Failed to initialize NVML", gorunMatrix}), "no matrix")
}

const smiQuery = "00000000:1B:00.0, NVIDIA H100 80GB HBM3, GPU-5d4f, 81559 MiB\n"

func TestSameGPUs(t *testing.T) {
	require.Equal(t, []gpu{{PCI: "0000:1b:00.0", Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-5d4f", Memory: 81559 << 20}},
		parseQuery(smiQuery))
	const own = `note: {
{"machine": {"gpus": [{"index": 0, "pci_address": "0000:1b:00.0", "vendor": "nvidia", "uuid": "GPU-5d4f", "name": ` +
		`"NVIDIA H100 80GB HBM3", "memory_bytes": 85520809984}]}}`
	ours := strings.TrimPrefix(own, "note: {\n")
	require.NoError(t, sameGPUs([]string{smiQuery, "a note\n" + ours}))
	for old, wrong := range map[string]string{
		"GPU-5d4f":     "0000:1b:00.0: nvidia-smi says GPU-5d4f, gorun other",
		"0000:1b:00.0": "0000:1b:00.0 is not known to gorun",
		"85520809984":  "0000:1b:00.0: nvidia-smi says 85520809984 bytes of memory, gorun 1",
	} {
		other := map[bool]string{true: "1", false: "other"}[strings.HasPrefix(old, "8")]
		require.EqualError(t, sameGPUs([]string{smiQuery, strings.Replace(ours, old, other, 1)}), wrong)
	}
	require.Error(t, sameGPUs([]string{smiQuery, `{"machine": {}}`}))
	require.Error(t, sameGPUs([]string{smiQuery, "gorun: no"}))
}

func TestSameParts(t *testing.T) {
	const smi = "  MIG 1g.10gb     Device  0: (UUID: MIG-aa)\n  MIG 1g.10gb     Device  1: (UUID: MIG-bb)\n"
	require.NoError(t, sameParts([]string{smi, `{"machine": {"gpus": [{"mig": ["MIG-bb", "MIG-aa"]}]}}`}))
	require.Error(t, sameParts([]string{smi, `{"machine": {"gpus": [{"mig": ["MIG-aa"]}]}}`}))
}

// No step changes settings of GPUs: of nvidia-smi they use what reads.
func TestStepsOnlyRead(t *testing.T) {
	reads := regexp.MustCompile(`^nvidia-smi( -L| -q| topo -m| --query-[a-z-]+=\S+ --format=csv,noheader)?([;|)\n"' ]|$)`)
	for _, s := range steps {
		require.NotEmpty(t, s.commands, s.name)
		regexp.MustCompile(s.want)
		for _, command := range s.commands {
			for _, at := range regexp.MustCompile(`nvidia-smi`).FindAllStringIndex(command, -1) {
				if strings.HasPrefix(command[at[0]:], "nvidia-smi shows no processes") {
					continue
				}
				require.Regexp(t, reads, command[at[0]:], s.name)
			}
		}
	}
}
