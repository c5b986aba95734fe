package sysfs

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"

	"gorun/placement/gpufacts"
)

func TestNVIDIASigns(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		want  gpufacts.Signs
	}{
		"nothing":             {nil, gpufacts.Signs{}},
		"another's under WSL": {[]string{"dev/dxg"}, gpufacts.Signs{}},
		"WSL":                 {[]string{"dev/dxg", wslLibrary}, gpufacts.Signs{Hidden: true}},
		"a library alone":     {[]string{wslLibrary}, gpufacts.Signs{}},
		"gVisor":              {[]string{"dev/nvidiactl"}, gpufacts.Signs{Hidden: true}},
		"a usual driver":      {[]string{"dev/nvidiactl", nvidiaDir + "/0000:1b:00.0/information"}, gpufacts.Signs{}},
		"could be divided":    {[]string{nvidiaParts + "/mig/config", nvidiaParts + "/gpu0/mig/monitor"}, gpufacts.Signs{}},
		"is divided": {
			[]string{nvidiaParts + "/mig/config", nvidiaParts + "/gpu1/mig/gi7/access"}, gpufacts.Signs{Divided: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for _, file := range test.files {
				tree[file] = &fstest.MapFile{}
			}
			assert.Equal(t, test.want, NVIDIASignsFS(tree))
		})
	}
}
