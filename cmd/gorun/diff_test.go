package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/internal/testneeds"
	"gorun/launcher/job"
)

// drawnRun has 300 variables and 30 versions.
func drawnRun(random *rand.Rand) (r run) {
	origins := []plan.Origin{plan.Inherited, plan.Exported, plan.Gorun}
	for i := range 300 {
		value := fmt.Sprint("value ", random.IntN(3))
		r.plan.Common = append(r.plan.Common, plan.Variable{
			Name: fmt.Sprint("NAME_", i), Value: value, Origin: origins[random.IntN(len(origins))],
		})
	}
	r.report.Result = new(job.Result)
	r.Versions = map[string]string{}
	for i := range 30 {
		r.Versions[fmt.Sprint("library ", i)] = fmt.Sprintf("%d.%d", random.IntN(3), random.IntN(30))
	}
	return r
}

// One change among many is the only difference.
func TestDiffOfOneChange(t *testing.T) {
	random := testneeds.Rand(t)
	for range testneeds.Count(20, 100) {
		good := drawnRun(random)
		bad := good
		bad.plan.Common = slices.Clone(good.plan.Common)
		random.Shuffle(len(bad.plan.Common), func(i, j int) {
			bad.plan.Common[i], bad.plan.Common[j] = bad.plan.Common[j], bad.plan.Common[i]
		})
		bad.Versions = maps.Clone(good.Versions)
		require.Empty(t, differences(&good, &bad))

		library := fmt.Sprint("library ", random.IntN(30))
		bad.Versions[library] += ".1"
		list := differences(&good, &bad)
		require.Equal(t, []difference{{"version of " + library, "", good.Versions[library], bad.Versions[library]}}, list)

		bad.Versions = good.Versions
		i := random.IntN(300)
		v := &bad.plan.Common[i]
		changes := []func(){
			func() { v.Value += " and more" }, func() { v.Origin += "?" }, func() { v.Name += "_OTHER" },
		}
		name, change := v.Name, random.IntN(len(changes))
		changes[change]()
		list = differences(&good, &bad)
		require.Len(t, list, []int{1, 1, 2}[change])
		require.True(t, slices.ContainsFunc(list, func(d difference) bool { return d.Subject == "environment "+name }))
	}
}

func TestDivergence(t *testing.T) {
	lines := func(list ...string) []string { return list }
	for _, c := range []struct {
		good, bad []string
		x, y      string
	}{
		{nil, nil, "", ""},
		{lines("step 1", "step 2"), lines("step 1", "step 2"), "", ""},
		{lines("step 1 at 0.1s", "done"), lines("step 1 at 0.2s", "Traceback"), "done", "Traceback"},
		{lines("loss 0.5", "done"), lines("loss 0.6", "done"), "loss 0.5", "loss 0.6"},
		{lines("loss 0.5", "done"), lines("loss nan", "done"), "loss 0.5", "loss nan"},
		{lines("load", "save", "done"), lines("save", "failed"), "done", "failed"},
		{lines("save", "done"), lines("load", "save", "done", "bye"), "", "bye"},
		{lines("done"), nil, "done", ""},
	} {
		x, y := divergence(c.good, c.bad)
		require.Equal(t, []string{c.x, c.y}, []string{x, y}, c.good)
	}
}
