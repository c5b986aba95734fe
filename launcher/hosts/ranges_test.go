package hosts

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rows are what scontrol 22.05 shows for its hostlists, but for text behind the
// last bracket, which it refuses.
func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"n[08-11]":          "n08 n09 n10 n11",
		"n[099-101]":        "n099 n100 n101",
		"n[9-11]":           "n9 n10 n11",
		"n[001-3]":          "n001 n002 n003",
		"a[1-2]b[3-4]":      "a1b3 a1b4 a2b3 a2b4",
		"a[1-2][3-4]":       "a13 a14 a23 a24",
		"n[1-2],n[1-2]":     "n1 n2 n1 n2",
		"n[1,5-6,03],x":     "n1 n5 n6 n03 x",
		"gpu-[1,3]-ib.site": "gpu-1-ib.site gpu-3-ib.site",
		"::1,[fe80::1%e]":   "::1 fe80::1%e",
	} {
		got, err := Expand(list)
		require.NoError(t, err, list)
		require.Equal(t, want, strings.Join(got, " "))
	}
	for list, want := range map[string]string{
		"a,,b": "a host's name is empty", "a:2": `it contains ':'`, "n[1-65536],m": "more than 65536",
		"n[2-1],m[": "missing ]",
	} {
		_, err := Expand(list)
		require.ErrorContains(t, err, want, list)
	}
}

func TestNodeList(t *testing.T) {
	for names, want := range map[string]string{
		"":                          "",
		"n1 n2 n3 n05 n06 x1":       "n[1-3,05-06],x1",
		"n3 n1 n2 n1":               "n[1-3]",
		"n8 n9 n10 n11":             "n[8-11]",
		"n08 n09 n10 n11 n8 n9":     "n[8-9,08-11]",
		"n099 n100 n101":            "n[099-101]",
		"n1.site n2.site n1.other2": "n[1-2].site,n1.other2",
		"r1-n1 r1-n2 r2-n1":         "r1-n[1-2],r2-n1",
		"10.0.0.1 10.0.0.2 ::1 ::2": "10.0.0.[1-2],::1,::2",
		"b a":                       "b,a",
		"n1 n3 n5":                  "n[1,3,5]",
		"1 2":                       "[1-2]",
		"n9999999999999999999 n1":   "n9999999999999999999,n1",
		"gpu-1-ib gpu-2-ib":         "gpu-[1-2]-ib",
	} {
		require.Equal(t, want, NodeList(strings.Fields(names)), names)
	}
	all := make([]string, maxHosts)
	for i := range all {
		all[i] = "node" + strconv.Itoa(i)
	}
	require.Equal(t, "node[0-65535]", NodeList(all))
}
