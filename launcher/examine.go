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
	// for a host to answer one request; more than an inspection may take, so that it can report
	// what was slow
	examineLimit = 4500 * time.Millisecond
	// for a host that hangs at login; copying programs may take longer
	examineLogin = 4500 * time.Millisecond
	// for a file system to answer
	examinePatience = 3 * time.Second
)

// Examine looks at the hosts of a spec for what package doctor judges, at all in parallel, or at
// this host if the spec names none. It starts no rank and writes nothing. It uses the same parts of
// the spec as [CheckHosts]. An error is an *Error and means that no host was looked at.
func Examine(ctx context.Context, spec Spec, o Options) (*doctor.Cluster, error) {
	if len(spec.Hosts) == 0 {
		spec.Hosts = append(spec.Hosts, thisHost)
	}
	c := newHostsCheck(spec, o)
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

// inspection has nodes inspect themselves, with the variables that ranks find libraries by.
func (c *hostsCheck) inspection(check *wire.Check) {
	check.Inspect, check.Patience = true, examinePatience
	check.Environ = c.variables("PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH")
	check.Python, _ = lookup(c.spec.Environ, env.VarPython)
}

// containerVariables identify this host as a container.
func (c *hostsCheck) containerVariables() []string {
	return c.variables("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
}

// printableJSON makes all texts in JSON of another host printable.
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
