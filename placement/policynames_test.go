package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The names are those of prterun 5.0.11. gorun returns other names where its placement differs. They
// are BYCORE without a mapping, NOOVERSUBSCRIBE by default, and FILL for ranks on NUMA nodes, which
// gorun numbers in turn. prterun has no GPUs and no user:.
func TestPolicyNames(t *testing.T) {
	tests := []struct {
		mapBy, rankBy, bindTo string
		bound                 bool
		want                  [3]string
	}{
		{"", "", "", false, [3]string{"BYSLOT", "SLOT", "NONE"}},
		{"", "", "", true, [3]string{"BYSLOT", "SLOT", "CORE:IF-SUPPORTED"}},
		{"", "", "none", false, [3]string{"BYSLOT", "SLOT", "NONE"}},
		{"", "", "hwthread", true, [3]string{"BYHWTHREAD", "FILL", "HWTHREAD"}},
		{"", "", "core:overload-allowed", true, [3]string{"BYCORE", "FILL", "CORE:OVERLOAD-ALLOWED"}},
		{"", "", "user:0,1", true, [3]string{"BYSLOT", "SLOT", "HWTHREAD"}},
		{"node", "", "", true, [3]string{"BYNODE", "NODE", "CORE:IF-SUPPORTED"}},
		{"ppr:2:node", "", "", true, [3]string{"BYNODE", "SLOT", "CORE:IF-SUPPORTED"}},
		{"core", "", "", true, [3]string{"BYCORE", "FILL", "CORE:IF-SUPPORTED"}},
		{"core", "node", "", true, [3]string{"BYCORE", "NODE", "CORE:IF-SUPPORTED"}},
		{"slot:pe=1", "", "hwthread:if-supported", true, [3]string{"BYSLOT", "SLOT", "HWTHREAD:IF-SUPPORTED"}},
		{"slot:oversubscribe", "", "", false, [3]string{"BYSLOT:OVERSUBSCRIBE", "SLOT", "NONE"}},
		{"numa", "", "", true, [3]string{"BYNUMA", "NUMA", "NUMA:IF-SUPPORTED"}},
		{"numa:pe=2", "slot", "", true, [3]string{"BYNUMA", "SLOT", "CORE:IF-SUPPORTED"}},
		{"numa", "span", "core", true, [3]string{"BYNUMA", "SPAN", "CORE"}},
		{
			"package:nooversubscribe:span", "fill", "", true,
			[3]string{"BYPACKAGE:NOOVERSUBSCRIBE:SPAN", "FILL", "PACKAGE:IF-SUPPORTED"},
		},
		{"dist", "", "", true, [3]string{"MINDIST", "SLOT", "CORE:IF-SUPPORTED"}},
		{"gpu", "", "", true, [3]string{"BYGPU", "GPU", "CORE:IF-SUPPORTED"}},
	}
	for _, test := range tests {
		var r Request
		var err error
		if test.mapBy != "" {
			r.MapBy, err = ParseMapBy(test.mapBy)
			require.NoError(t, err)
		}
		if test.rankBy != "" {
			r.RankBy, err = ParseRankBy(test.rankBy)
			require.NoError(t, err)
		}
		if test.bindTo != "" {
			r.BindTo, err = ParseBindTo(test.bindTo)
			require.NoError(t, err)
		}
		mapBy, rankBy, bindTo := r.PolicyNames(test.bound)
		assert.Equal(t, test.want, [3]string{mapBy, rankBy, bindTo}, "%+v", test)
	}
	mapBy, rankBy, bindTo := Request{RankFile: &RankFile{}}.PolicyNames(true)
	assert.Equal(t, [3]string{"BYUSER", "BYUSER", "CORE:IF-SUPPORTED"}, [3]string{mapBy, rankBy, bindTo})
}
