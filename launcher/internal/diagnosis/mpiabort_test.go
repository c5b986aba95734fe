package diagnosis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWithoutAbortHelp(t *testing.T) {
	rule := strings.Repeat("-", 74)
	help := []string{
		rule, "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD", "with errorcode 3.", "",
		"exactly when Open MPI kills them.", rule,
	}
	sorry := []string{
		rule, "Sorry!  You were supposed to get help about:", "    mpi-abort", "from the file:",
		"But I couldn't find that topic in the file.  Sorry!", rule,
	}
	other := []string{rule, "Sorry!  You were supposed to get help about:", "    no-btl", rule}
	join := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	own := []string{"ValueError: no", "--"}
	for _, c := range []struct{ lines, want []string }{
		{nil, nil},
		{own, own},
		{join(own, help), own},
		{join(help, own, sorry), own},
		{join(other, help), other},
		{help[:5], help[:5]},
		{help[1:], help[1:]},
	} {
		assert.Equal(t, c.want, WithoutAbortHelp(c.lines))
	}
}
