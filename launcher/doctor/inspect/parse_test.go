package inspect

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/doctor"
)

func TestParseDriver(t *testing.T) {
	for line, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023": "535.129.03",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  " +
			"(dvs-builder@U16)": "550.54.15 open",
		"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.124.06  Release Build\n" +
			"GCC version:  13.2": "570.124.06 open",
		"GCC version:  gcc version 12.3.0": "",
		"":                                 "",
	} {
		version, open := parseDriver(line)
		if open {
			version += " open"
		}
		assert.Equal(t, want, version)
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]doctor.Port{
		"400 Gb/sec (4X NDR)": {Gbps: 400, Width: 4},
		"2.5 Gb/sec (1X SDR)": {Gbps: 2.5, Width: 1},
		"25 Gb/sec (1X EDR)":  {Gbps: 25, Width: 1},
		"100 Gb/sec":          {Gbps: 100},
		"-1 Gb/sec (4X":       {Width: 4},
		"nan Gb/sec":          {},
		"":                    {},
	} {
		gbps, lanes := parseRate(text)
		assert.Equal(t, want, doctor.Port{Gbps: gbps, Width: lanes}, text)
	}
}

func TestParseDistribution(t *testing.T) {
	for entry, want := range map[string]string{
		"torch-2.9.1+cu128.dist-info":         "torch 2.9.1+cu128",
		"nvidia_nccl_cu12-2.27.5.dist-info":   "nvidia-nccl-cu12 2.27.5",
		"numpy-1.24.2-py3.11.egg-info":        "numpy 1.24.2",
		"PyYAML-6.0.dist-info":                "pyyaml 6.0",
		"torch":                               "",
		"-.dist-info":                         "",
		"distutils-precedence.pth":            "",
		"nameless.dist-info":                  "",
		"mpi4py-4.1.2.dist-info.unpacked.tmp": "",
	} {
		name, version, ok := parseDistribution(entry)
		if !ok {
			name, version = "", ""
		}
		assert.Equal(t, want, strings.TrimSpace(name+" "+version), entry)
	}
}

func TestPythonString(t *testing.T) {
	text := "__version__ = '2.9.1'\ncuda: Optional[str] = \"12.8\"\nhip: Optional[str] = None\nxpu = 'x'\n"
	assert.Equal(t, "12.8", pythonString(text, "cuda"))
	assert.Equal(t, "", pythonString(text, "hip"))
	assert.Equal(t, "", pythonString(text, "git_version"))
}

func FuzzParsers(f *testing.F) {
	f.Add("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19",
		[]byte("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"))
	f.Add("MemTotal:  1056 kB\nHugepagesize: 2048 kB", []byte{0, 1, 2})
	f.Add("400 Gb/sec (4X NDR)", []byte("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 99999999999999999999"))
	f.Add("50 (train (er)) S 1 50 50 0", []byte{})
	f.Add("127.0.1.1 n1 # n1", []byte{})
	f.Add("nvidia_nccl_cu12-2.27.5.dist-info", []byte{})
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		version, _ := parseDriver(text)
		require.Equal(t, "", strings.Trim(version, "0123456789."))
		gbps, lanes := parseRate(text)
		require.True(t, gbps >= 0 && lanes >= 0)
		for _, n := range parseMeminfo(text) {
			require.GreaterOrEqual(t, n, int64(0))
		}
		for _, x := range parseXids(append(data, text...)) {
			require.Positive(t, x.Count)
			require.LessOrEqual(t, len(x.PCI), 16)
		}
		parseStat(text)
		hostsLine(text, "n1")
		fieldOf(text, "a", ":")
		require.GreaterOrEqual(t, fieldNumber(text, "file"), int64(0))
		if name, version, ok := parseDistribution(text); ok {
			require.NotEmpty(t, name)
			require.NotEmpty(t, version)
		}
		pythonString(text, "cuda")
	})
}

func FuzzAccessControl(f *testing.F) {
	config := make([]byte, 512)
	binary.LittleEndian.PutUint32(config[0x100:], 1<<16|0x000d)
	binary.LittleEndian.PutUint16(config[0x106:], 0x1f)
	f.Add(config)
	f.Add(config[:64])
	circle := make([]byte, 512)
	binary.LittleEndian.PutUint32(circle[0x100:], 0x100<<20|1)
	f.Add(circle)
	f.Fuzz(func(_ *testing.T, config []byte) { accessControl(config) })
	control, ok := accessControl(config)
	require.True(f, ok)
	require.Equal(f, uint16(0x1f), control)
}
