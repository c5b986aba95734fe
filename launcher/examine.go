package launcher

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/launcher/doctor"
	"gorun/launcher/internal/wire"
)

const (
	// examineLimit is for a host to answer one question: it is more than it takes itself, so
	// that it says what was too slow.
	examineLimit = 4500 * time.Millisecond
	// examineLogin is for a host to let us in: one that hangs takes no longer. What has to be
	// sent there may take its time.
	examineLogin = 4500 * time.Millisecond
	// examinePatience is for a file system to answer.
	examinePatience = 3 * time.Second
)

// Examine looks at the hosts of a wish, at all of them at once, for what package doctor
// judges; it starts no rank and writes nothing. Without hosts it looks at this one. Of the
// wish the same counts as for [CheckHosts]. An error is an *Error, and means that nothing
// was looked at.
func Examine(ctx context.Context, spec Spec, options ...Option) (*doctor.Cluster, error) {
	if len(spec.Hosts) == 0 {
		spec.Hosts = append(spec.Hosts, thisHost)
	}
	c := newHostsCheck(spec, options)
	c.settings.answerLimit = min(c.settings.answerLimit, examineLimit)
	c.settings.loginLimit = examineLogin
	c.inspect = true
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	cluster := c.cluster()
	cluster.Unreached = c.problems.list
	return cluster, nil
}

// inspection has nodes inspect themselves. Libraries are looked for where ranks would find
// them.
func (c *hostsCheck) inspection(check *wire.Check) {
	check.Inspect, check.Patience = true, examinePatience
	check.Environ = c.variables("PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH")
	check.Python, _ = lookup(c.spec.Environ, env.VarPython)
}

// signsOfContainers are variables by which this host is known to be a container.
func (c *hostsCheck) containerVariables() []string {
	return c.variables("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
}

// cleaned is JSON of another host, in whose texts nothing is left that does something to a
// terminal.
func printableJSON(text []byte) []byte {
	var all any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if decoder.Decode(&all) != nil {
		return text
	}
	clean, err := json.Marshal(printableValue(all))
	if err != nil {
		return text
	}
	return clean
}

func printableValue(v any) any {
	switch v := v.(type) {
	case string:
		return printable.Text(v)
	case []any:
		for i := range v {
			v[i] = printableValue(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if clean := printable.Text(key); clean != key {
				delete(v, key)
				v[clean] = printableValue(value)
				continue
			}
			v[key] = printableValue(value)
		}
	}
	return v
}
