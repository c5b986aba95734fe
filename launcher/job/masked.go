package job

import (
	"slices"
	"strconv"
	"strings"

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

// Masker hides the values of secret variables in texts, also quoted. Short values and numbers remain: they would be
// hidden where they are something else.
func (p *Plan) Masker() *strings.Replacer {
	const short = 8
	var pairs []string
	add := func(vars []plan.Variable) {
		for _, v := range vars {
			if shown := v.Shown(); shown != v.Value && len(v.Value) >= short && strings.Trim(v.Value, "0123456789") != "" {
				quoted := strconv.Quote(v.Value)
				pairs = append(pairs, v.Value, shown, quoted[1:len(quoted)-1], shown)
			}
		}
	}
	add(p.Common)
	for _, n := range p.Nodes {
		add(n.Env)
	}
	for _, r := range p.Ranks {
		add(r.Env)
	}
	return strings.NewReplacer(pairs...)
}
