package job

import (
	"slices"

	"gorun/env/plan"
)

// Masked returns the plan for people, without secrets in variables and command lines.
func (p *Plan) Masked() *Plan {
	mask := func(vars []plan.Variable) []plan.Variable {
		shown := slices.Clone(vars)
		for i := range shown {
			shown[i].Value = shown[i].Shown()
		}
		return shown
	}
	m := *p
	m.Common, m.Ranks, m.Nodes, m.Apps = mask(p.Common), slices.Clone(p.Ranks), slices.Clone(p.Nodes), slices.Clone(p.Apps)
	for i := range m.Apps {
		m.Apps[i].Argv = plan.HideSecrets(m.Apps[i].Argv)
	}
	for i := range m.Nodes {
		m.Nodes[i].Env = mask(m.Nodes[i].Env)
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		r.Env = mask(r.Env)
		if r.Argv != nil {
			r.Argv = plan.HideSecrets(r.Argv)
		}
	}
	return &m
}
