package faults

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// classesText has lines "CLASS: beginning of a case's name"; the longest beginning counts. "?" depends on the moment,
// as where each node's gorun writes the report. Cases without a line end well. A lost host is the node's fault, as
// nobody can tell a crash from a cut link.
//
//go:embed testdata/classes.txt
var classesText string

// blamed counts the reports with the right class.
var blamed tally

type tally struct {
	mutex  sync.Mutex
	all    int
	misses []string
}

// end is whose fault an end was by the launcher's report.
type end struct{ Class, Why string }

// end is nil if the launcher was killed, or still runs.
func (s *scene) end() (e *end) {
	text, _ := os.ReadFile(s.path("report"))
	_ = json.Unmarshal(text, &e)
	return e
}

func (c *tally) add(t *testing.T, name string, v verdict) {
	if v.end == nil {
		return
	}
	want, longest := "", ""
	for line := range strings.Lines(classesText) {
		class, begin, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if strings.HasPrefix(name, begin) && len(begin) > len(longest) {
			want, longest = class, begin
		}
	}
	if want == "?" {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.all++; want != v.end.Class {
		c.misses = append(c.misses, fmt.Sprintf("%s: %+v, wanted class %q", name, *v.end, want))
		t.Log(c.misses[len(c.misses)-1])
	}
}

// check prints the misses, which may be 5 %.
func (c *tally) check(t *testing.T) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	t.Logf("%d of %d reports have the right class; misses: %q", c.all-len(c.misses), c.all, c.misses)
	assert.LessOrEqual(t, len(c.misses)*20, c.all)
	c.all, c.misses = 0, nil
}
