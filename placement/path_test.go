package placement

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// at returns the position for a path: "pci0000:15/0000:15:01.0/0000:18:00.0".
func at(node int, path string) *Bus {
	parts := strings.Split(path, "/")
	return &Bus{Root: parts[0], Bridges: parts[1 : len(parts)-1], Address: parts[len(parts)-1], Node: node}
}

func TestPathBetween(t *testing.T) {
	const port, up = "pci0000:15/0000:15:01.0", "pci0000:15/0000:15:01.0/0000:16:00.0"
	gpu := at(0, up+"/0000:17:00.0/0000:18:00.0")
	tests := map[string]struct {
		a, b *Bus
		want string
	}{
		"itself":                     {gpu, gpu, "X"},
		"functions of one card":      {at(0, port+"/0000:29:00.0"), at(0, port+"/0000:29:00.1"), "PIX"},
		"one switch":                 {gpu, at(0, up+"/0000:17:01.0/0000:19:00.0"), "PIX"},
		"a switch below a switch":    {gpu, at(0, up+"/0000:17:01.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0"), "PXB"},
		"below two ports":            {gpu, at(0, "pci0000:15/0000:15:02.0/0000:30:00.0"), "PHB"},
		"on the root bus":            {at(0, "pci0000:00/0000:00:03.0"), at(0, "pci0000:00/0000:00:04.0"), "PHB"},
		"another host bridge":        {gpu, at(0, "pci0000:37/0000:37:01.0/0000:38:00.0"), "NODE"},
		"another NUMA node":          {gpu, at(1, "pci0000:97/0000:97:01.0/0000:98:00.0"), "SYS"},
		"another domain":             {at(0, "pci0001:00/0001:00:00.0"), at(0, "pci0002:00/0002:00:00.0"), "NODE"},
		"nobody knows the node":      {at(-1, "pci0001:00/0001:00:00.0"), at(-1, "pci0002:00/0002:00:00.0"), "NODE"},
		"one node is unknown":        {gpu, at(-1, "pci0000:37/0000:38:00.0"), "SYS"},
		"no tree, the same node":     {&Bus{Address: "0000:01:00.0"}, &Bus{Address: "0000:02:00.0"}, "NODE"},
		"no tree, not the same node": {&Bus{Address: "0000:01:00.0"}, &Bus{Address: "0000:02:00.0", Node: 1}, "SYS"},
		"no position":                {gpu, nil, "SYS"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, PathBetween(test.a, test.b).String())
			assert.Equal(t, test.want, PathBetween(test.b, test.a).String(), "the way back")
		})
	}
}

func TestPathBetweenGPUs(t *testing.T) {
	a := GPU{
		PCI: "a", Bus: at(0, "pci0000:15/0000:15:01.0/a"),
		Links: []Link{{Peer: "b", Kind: "nvlink", Count: 18}, {Peer: "c", Kind: "nvlink"}},
	}
	b := GPU{PCI: "b", Bus: at(1, "pci0000:80/b")}
	c := GPU{PCI: "c", Bus: at(1, "pci0000:80/c")}
	amd := GPU{PCI: "d", Links: []Link{{Peer: "a", Kind: "xgmi", Count: 1}}}
	assert.Equal(t, "NV18", PathBetweenGPUs(a, b).String())
	assert.Equal(t, "NV18", PathBetweenGPUs(b, a).String(), "only the other side tells")
	assert.Equal(t, "SYS", PathBetweenGPUs(a, c).String(), "links that are down")
	assert.Equal(t, "PHB", PathBetweenGPUs(b, c).String())
	assert.Equal(t, "XGMI", PathBetweenGPUs(a, amd).String())
	assert.Equal(t, "X", PathBetweenGPUs(a, a).String())
}

func TestPathsAreOrdered(t *testing.T) {
	assert.Negative(t, Path{Class: PathLink, Links: 18}.Compare(Path{Class: PathLink, Links: 4}))
	assert.Negative(t, Path{Class: PathLink, Links: 4}.Compare(Path{Class: PathPIX}))
	assert.Positive(t, Path{Class: PathSYS}.Compare(Path{Class: PathNODE}))
	assert.Equal(t, "?", Path{Class: 99}.String())
}
