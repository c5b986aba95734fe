package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gorun/launcher/doctor"
	"gorun/launcher/doctor/inspect"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/placement/gpufacts"
)

// inspectLimit is how long everything that is inspected may take: whoever asks wants an
// answer in five seconds, and has to reach this host first.
const inspectLimit = 3 * time.Second

// inspect is what package doctor judges, as JSON; nil if it is too much.
func (a *Agent) inspect(c wire.Check, programs []program.Resolved) []byte {
	environ := slices.Concat(c.Environ, a.cfg.Environ)
	cfg := inspect.Config{
		Root: os.DirFS("/"), System: inspect.This(), NVML: a.cfg.askNVML, Environ: environ,
		Limit: inspectLimit,
	}
	cfg.Python = interpreter(c, environ)
	if len(programs) > 0 {
		cfg.Program, _ = filepath.Abs(programs[0].Path)
	}
	host := inspect.Look(cfg)
	text, err := json.Marshal(&host)
	if err != nil || len(text) > wire.HostLimit {
		text, _ = json.Marshal(&doctor.Host{Unknown: []string{"what was found there is too much to be sent"}})
	}
	return text
}

// askNVML asks NVIDIA's library by another process.
func (c Config) askNVML(_ int, limit time.Duration) (gpufacts.Facts, error) {
	return c.NVML.FactsWithin(limit)
}

// interpreter is the Python that a script would get; "" if there is none.
func interpreter(c wire.Check, environ []string) string {
	found, err := program.Resolve(program.Wish{
		Name: "site", Start: spec.StartModule, Python: c.Python, Lookup: func(name string) string {
			return lookup(environ, name)
		},
	})
	if err != nil {
		return ""
	}
	path, err := filepath.Abs(found.Path)
	if err != nil {
		return ""
	}
	return path
}
