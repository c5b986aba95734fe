package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// gpus returns n GPUs of a vendor. Those of NVIDIA and AMD have UUIDs.
func gpus(vendor Vendor, n int) []GPU {
	list := make([]GPU, n)
	for i := range list {
		list[i] = GPU{Index: i, PCI: fmt.Sprintf("0000:%02x:00.0", 16*i+11), Vendor: vendor}
		if vendor != Intel {
			list[i].UUID = fmt.Sprintf("GPU-%x%x000000-5555", i, i)
		}
	}
	return list
}

func TestVisible(t *testing.T) {
	four := gpus(NVIDIA, 4)
	nameless := gpus(NVIDIA, 4)
	for i := range nameless {
		nameless[i].UUID = ""
	}
	tests := []struct {
		name    string
		gpus    []GPU
		environ []string
		want    []int // Index of each visible GPU
		note    string
	}{
		{"no variable", four, nil, []int{0, 1, 2, 3}, ""},
		{"no GPU", nil, []string{"CUDA_VISIBLE_DEVICES=0,1"}, nil, ""},
		{"numbers", four, []string{"CUDA_VISIBLE_DEVICES=3,1"}, []int{3, 1}, "CUDA_VISIBLE_DEVICES=3,1"},
		{"blanks", four, []string{"CUDA_VISIBLE_DEVICES= 0, 1"}, []int{0, 1}, "CUDA_VISIBLE_DEVICES= 0, 1"},
		{"as strtoul reads", four, []string{"CUDA_VISIBLE_DEVICES=1gpu,+2"}, []int{1, 2}, "CUDA_VISIBLE_DEVICES=1gpu,+2"},
		{
			"the last entry of an environment counts", four,
			[]string{"CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1,2"},
			[]int{1, 2},
			"CUDA_VISIBLE_DEVICES=1,2",
		},
		{"empty", four, []string{"CUDA_VISIBLE_DEVICES="}, nil, `CUDA_VISIBLE_DEVICES="" hides all of 4 GPUs`},
		{"-1", four, []string{"CUDA_VISIBLE_DEVICES=-1"}, nil, "CUDA_VISIBLE_DEVICES=-1 hides all of 4 GPUs"},
		{
			"-1 in the middle", four,
			[]string{"CUDA_VISIBLE_DEVICES=0,-1,2"},
			[]int{0},
			`CUDA_VISIBLE_DEVICES=0,-1,2 counts only up to "-1", which matches none of 4 GPUs`,
		},
		{
			"too high", four,
			[]string{"CUDA_VISIBLE_DEVICES=2,4,1"},
			[]int{2},
			`CUDA_VISIBLE_DEVICES=2,4,1 counts only up to "4", which matches none of 4 GPUs`,
		},
		{
			"a word", four,
			[]string{"CUDA_VISIBLE_DEVICES=NoDevFiles"},
			nil,
			`CUDA_VISIBLE_DEVICES=NoDevFiles counts only up to "NoDevFiles", which matches none of 4 GPUs`,
		},
		{
			"twice", four,
			[]string{"CUDA_VISIBLE_DEVICES=0,0"},
			nil,
			`CUDA_VISIBLE_DEVICES=0,0 lists "0" twice, which hides all of 4 GPUs`,
		},
		{
			"UUIDs", four,
			[]string{"CUDA_VISIBLE_DEVICES=GPU-22,gpu-x"},
			[]int{2},
			`CUDA_VISIBLE_DEVICES=GPU-22,gpu-x counts only up to "gpu-x", which matches none of 4 GPUs`,
		},
		{
			"a UUID that fits several", four,
			[]string{"CUDA_VISIBLE_DEVICES=GPU-"},
			nil,
			`CUDA_VISIBLE_DEVICES=GPU- counts only up to "GPU-", which matches none of 4 GPUs`,
		},
		{
			"UUIDs that the machine does not know", nameless,
			[]string{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"},
			[]int{-1, -1},
			"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b",
		},
		{
			"numbers and UUIDs do not mix", four,
			[]string{"CUDA_VISIBLE_DEVICES=GPU-22,1"},
			[]int{2},
			`CUDA_VISIBLE_DEVICES=GPU-22,1 counts only up to "1", which matches none of 4 GPUs`,
		},
		{
			"MIG", gpus(NVIDIA, 1),
			[]string{"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b,0"},
			[]int{-1, -1},
			`CUDA_VISIBLE_DEVICES=MIG-a,MIG-b,0 counts only up to "0", which matches none of 1 GPU`,
		},
		{
			"NVIDIA comes before the processor's own GPU", append(gpus(AMD, 1), gpus(NVIDIA, 2)...),
			[]string{"HIP_VISIBLE_DEVICES="},
			[]int{0, 1},
			"",
		},
		{
			"AMD's numbers and UUIDs mix",
			[]GPU{{Vendor: AMD, UUID: "GPU-11"}, {Index: 1, Vendor: AMD, UUID: "GPU-22"}},
			[]string{"ROCR_VISIBLE_DEVICES=0, GPU-22"},
			[]int{0, 1},
			"ROCR_VISIBLE_DEVICES=0, GPU-22",
		},
		{"AMD, ROCR", gpus(AMD, 4), []string{"ROCR_VISIBLE_DEVICES=2,3"}, []int{2, 3}, "ROCR_VISIBLE_DEVICES=2,3"},
		{
			"AMD, HIP counts what ROCR left", gpus(AMD, 4),
			[]string{"HIP_VISIBLE_DEVICES=1", "ROCR_VISIBLE_DEVICES=2,3"},
			[]int{3},
			"HIP_VISIBLE_DEVICES=1",
		},
		{"AMD, CUDA is HIP's alias", gpus(AMD, 4), []string{"CUDA_VISIBLE_DEVICES=1"}, []int{1}, "CUDA_VISIBLE_DEVICES=1"},
		{
			"AMD, HIP overrides its alias", gpus(AMD, 4),
			[]string{"CUDA_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=2"},
			[]int{2},
			"HIP_VISIBLE_DEVICES=2",
		},
		{
			"AMD, ROCR hides all", gpus(AMD, 4),
			[]string{"ROCR_VISIBLE_DEVICES="},
			nil,
			`ROCR_VISIBLE_DEVICES="" hides all of 4 GPUs`,
		},
		{"Intel, devices", gpus(Intel, 3), []string{"ZE_AFFINITY_MASK=2,0"}, []int{2, 0}, "ZE_AFFINITY_MASK=2,0"},
		{
			"Intel, tiles", gpus(Intel, 2),
			[]string{"ZE_AFFINITY_MASK=0.0,0.1,0.1,7,x"},
			[]int{0, 0},
			"ZE_AFFINITY_MASK=0.0,0.1,0.1,7,x",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			visible, note := Visible(test.gpus, VisibilityOf(test.environ))
			var got []int
			for _, gpu := range visible {
				got = append(got, gpu.Index)
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.note, note)
		})
	}
}
