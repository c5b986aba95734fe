package placement

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseCPUSet(t *testing.T) {
	tests := []struct {
		list, want string
		len        int
	}{
		{"", "", 0},
		{"\n", "", 0},
		{"0", "0", 1},
		{"0-3,8\n", "0-3,8", 5},
		{"8,0-3", "0-3,8", 5},
		{"0-1,2,2,1-3", "0-3", 4},
		{"62-65,127,128", "62-65,127-128", 6},
		{"0-55,112-167", "0-55,112-167", 112},
		// Some firmware numbers the CPUs of two sockets alternately.
		{"1,3,5,7", "1,3,5,7", 4},
		{"65535", "65535", 1},
	}
	for _, test := range tests {
		t.Run(test.list, func(t *testing.T) {
			set, err := ParseCPUSet(test.list)
			require.NoError(t, err)
			assert.Equal(t, test.want, set.String())
			assert.Equal(t, test.len, set.Len())
		})
	}
}

func TestParseCPUSetErrors(t *testing.T) {
	for list, want := range map[string]string{
		"a":        `CPU list "a": "a" is not a CPU number below 65536`,
		"0,":       "", // the kernel never writes it, but it is unambiguous
		"0,,1":     `CPU list "0,,1": "" is not a CPU number below 65536`,
		"3-1":      `CPU list "3-1": range "3-1" ends before it starts`,
		"0-65536":  `CPU list "0-65536": "65536" is not a CPU number below 65536`,
		"-1":       `CPU list "-1": "" is not a CPU number below 65536`,
		"0-7:2/4":  `CPU list "0-7:2/4": "7:2/4" is not a CPU number below 65536`,
		"0 1":      `CPU list "0 1": "0 1" is not a CPU number below 65536`,
		"99999999": `CPU list "99999999": "99999999" is not a CPU number below 65536`,
	} {
		t.Run(list, func(t *testing.T) {
			_, err := ParseCPUSet(list)
			if want == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, want)
		})
	}
}

func TestCPUSetOf(t *testing.T) {
	set := CPUSetOf([]uint64{1<<63 | 1, 1, 0, 0})
	assert.Equal(t, "0,63-64", set.String())
	assert.True(t, set.Has(63))
	assert.False(t, set.Has(62))
	assert.False(t, set.Has(-1))
	assert.False(t, set.Has(1000))

	parsed, err := ParseCPUSet("0,63-64")
	require.NoError(t, err)
	assert.Equal(t, parsed, set, "equal sets are equal values")
}

func TestMachineAsJSON(t *testing.T) {
	set, err := ParseCPUSet("0-3,8")
	require.NoError(t, err)
	m := Machine{CPUs: set, Quota: 1.5, GPUs: []GPU{{PCI: "0000:1b:00.0", Vendor: NVIDIA}}}
	text, err := json.Marshal(m)
	require.NoError(t, err)
	assert.JSONEq(t, `{"cpus":"0-3,8","cpu_quota":1.5,`+
		`"gpus":[{"index":0,"pci_address":"0000:1b:00.0","vendor":"nvidia"}]}`,
		string(text))
	var back Machine
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, m, back)
	assert.Error(t, json.Unmarshal([]byte(`{"cpus":"x"}`), &back))
}

func FuzzParseCPUSet(f *testing.F) {
	f.Fuzz(func(t *testing.T, list string) {
		set, err := ParseCPUSet(list)
		if err != nil {
			return
		}
		again, err := ParseCPUSet(set.String())
		require.NoError(t, err, "what String writes can be read")
		assert.Equal(t, set.String(), again.String())
		assert.Equal(t, set.Len(), again.Len())
	})
}

func TestCPUSetOperations(t *testing.T) {
	set, low, empty := NewCPUSet(0, 31, 64), NewCPUSet(0), CPUSet{}
	assert.Equal(t, 3, set.Len())
	assert.Equal(t, 0, set.Min())
	assert.Equal(t, -1, empty.Min())
	assert.Equal(t, []int{0, 31, 64}, slices.Collect(set.All()))
	assert.True(t, low.SubsetOf(set))
	assert.False(t, set.SubsetOf(low))
	assert.True(t, empty.SubsetOf(low))
	assert.True(t, set.Intersects(low))
	assert.False(t, set.Intersects(NewCPUSet(1, 65)))
	assert.Equal(t, low, set.Intersection(low))
	assert.Equal(t, NewCPUSet(31, 64), set.Without(low))
	assert.Equal(t, set, low.Union(NewCPUSet(64), NewCPUSet(31)))
	assert.Equal(t, set, low.With(31, 64))
	assert.True(t, set.Without(NewCPUSet(31, 64)).Equal(low))
	assert.Zero(t, empty.Union(empty), "an empty set is the zero value")
}

func set(list string) CPUSet {
	s, err := ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return s
}
