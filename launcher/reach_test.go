package launcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/remote"
)

// All unreachable hosts are in one report, regardless of their names and timeouts.
func TestMergeErrorsOfHosts(t *testing.T) {
	s := &session{}
	var errs []error
	for _, h := range []struct {
		name, target string
		after        time.Duration
	}{
		{"h1", "ann@h1:22 (10.0.0.1)", 15 * time.Second},
		{"h2", "ann@h2:22 (10.0.0.2)", 3 * time.Second},
		{"h3", "ann@h3:22 (10.0.0.3)", 0},
	} {
		s.nodes = append(s.nodes, &node{name: h.name, host: hosts.Host{Name: h.name}})
		errs = append(errs,
			reachError(&remote.Error{
				Step: remote.StepConnect, Text: "no route to " + h.target, Target: h.target,
				After: h.after,
			}))
	}
	assert.EqualError(t, flatten(s.joinErrors(errs))[0], "h[1-3]: connect: no route to the host (after 15s)")
	assert.EqualError(t, flatten(s.joinErrors([]error{errs[0], nil, nil}))[0],
		"h1: connect: no route to ann@h1:22 (10.0.0.1) (after 15s)")
}
