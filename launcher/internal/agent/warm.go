package agent

import (
	"slices"
	"strings"

	"gorun/env"
	"gorun/launcher/internal/forkserver"
	"gorun/launcher/internal/wire"
)

// warm handles a Warm frame: it has Python import modules for the ranks of later attempts.
func (a *Agent) warm(w wire.Warm) {
	if a.forks.Load() != nil || !a.cfg.Subreaper { // a forked rank is a child of whoever adopts it
		return
	}
	server, err := forkserver.Start(forkserver.Config{
		App: w.App, Imports: w.Imports, Stderr: noticeWriter{a},
		Environ: slices.DeleteFunc(w.Environ, func(entry string) bool { return strings.HasPrefix(entry, env.VarJob+"=") }),
	}, a.imported)
	if err != nil {
		a.imported(err)
		return
	}
	a.forks.Store(server)
}

// warmJoined has a node that joined import what its own command line names: a head may not choose modules for it.
func (a *Agent) warmJoined(s *wire.Start) {
	o := a.cfg.Joined
	if o != nil && o.WarmImports != nil && len(s.Ranks) > 0 && s.Apps[0].Python() > 0 {
		a.warm(wire.Warm{
			App: s.Apps[0], Imports: o.WarmImports, Environ: slices.Concat(s.Common, s.Ranks[0].Env),
		})
	}
}

// imported reports the result of imports.
func (a *Agent) imported(err error) {
	if err != nil && !a.closing.Load() {
		a.notice("--warm-imports: %v; ranks of a restart import their modules themselves", err)
	}
}
