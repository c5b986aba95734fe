package dialect

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
)

// otherwiseSaid are values of variables that differ from those of sample.
var otherwiseSaid = map[string]string{
	"np": "5", "nproc-per-node": "5", "host": "here:5", "hostfile": "odd.txt", "chdir": "/other", "store": "rank0",
	"stdin": "none", "label": "never", "log-dir": "/other", "log-layout": "gorun",
	"timeout": "7", "grace": "7", "shutdown-timeout": "7", "on-failure": "stop", "bind-mem": "interleave",
	"ssh": "other", "ssh-timeout": "7", "ssh-config": "other", "bind-to": "core", "map-by": "core",
	"rank-by": "node", "numa-binding": "socket", "cpus-per-rank": "5", "gpus-per-rank": "5", "gpus": "5", "mpi": "pmi1",
	"world": "job", "engine": "none",
	"binding": "hwthread", "membind": "interleave", "launcher-exec": "other", "iface": "eth7", "export-all": "0",
	"dry-run": "0", "oversubscribe": "0", "isolate-gpus": "0", "quiet": "0", "verbose": "2",
	"hwloc_base_binding_policy": "hwthread", "rmaps_base_mapping_policy": "core", "rmaps_base_ranking_policy": "node",
	"rmaps_base_pattern": "3:node", "rmaps_base_n_persocket": "3",
	"rmaps_base_n_pernode": "3", "rmaps_base_cpus_per_rank": "3", "orte_rankfile": "ranks.txt",
	"orte_default_hostfile": "odd.txt", "orte_default_dash_host": "here:5", "plm_rsh_agent": "other",
	"plm_rsh_args": "-p 7", "orte_abort_on_non_zero_status": "1", "orte_output_filename": "other",
	"mca_base_env_list": "A=9;B", "mca_base_env_list_delimiter": "+", "hwloc_base_cpu_list": "0",
	"HYDRA_LAUNCHER_EXTRA_ARGS": "-p 7", "HYDRA_ENV": "all", "I_MPI_PERHOST": "7", "HYDRA_CONFIG_FILE": "f",
}

// setting is a variable that sets an option.
type setting struct {
	option *Option
	entry  string
}

// settings are the variables of a dialect, each with a value. If another launcher has several names for one
// setting, only the first counts.
func settings(d *Dialect) (all []setting) {
	add := func(o *Option, name string) {
		value, is := otherwiseSaid[o.Name()]
		if !is {
			value, is = sample[o.Name()]
		}
		if !is {
			value = "1"
		}
		all = append(all, setting{o, name + "=" + value})
	}
	for o := range d.Options {
		for _, name := range o.Variables() {
			if !o.Refused() {
				add(o, name)
			}
		}
	}
	seen := map[*Option]bool{}
	for _, f := range fallbacksOf(d) {
		if o := f.option; !seen[o] {
			seen[o] = true
			add(o, f.variable)
		}
	}
	return all
}

// leaves maps paths to the values of an Invocation; each element of a list is one value.
func leaves(into map[string]any, at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(into, at+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			leaves(into, at, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if strings.HasSuffix(at, ".Apps") {
				leaves(into, fmt.Sprintf("%s[%d]", at, i), v.Index(i))
				continue
			}
			into[fmt.Sprintf("%s[%v]", at, v.Index(i))] = true
		}
	case reflect.Func, reflect.Map, reflect.Interface:
	default:
		into[at] = fmt.Sprint(v)
	}
}

func leavesOf(inv Invocation) map[string]any {
	found := map[string]any{}
	inv.Dialect, inv.typed = nil, nil // the whole table, and the words
	leaves(found, "", reflect.ValueOf(inv))
	maps.DeleteFunc(found, func(at string, _ any) bool {
		return strings.Contains(at, "From") || strings.HasPrefix(at, ".Notes")
	})
	return found
}

// differs are the leaves that differ between a parsed command line and the plain one.
func differs(inv Invocation, plain map[string]any) map[string]any {
	found := leavesOf(inv)
	maps.DeleteFunc(found, func(at string, value any) bool { return plain[at] == value })
	return found
}

func contains(all, some map[string]any) bool {
	for at, value := range some {
		if all[at] != value {
			return false
		}
	}
	return true
}

// group is a set of variables that do not affect each other.
type group struct {
	entries []string
	said    map[string]any
}

// grouped combines variables as long as each still has an effect. So not every pair of an option and a variable
// needs its own command line.
func grouped(all []setting, parsed func(line []string, variables ...string) (Invocation, error),
	plain map[string]any,
) (groups []*group) {
	for _, s := range all {
		alone, err := parsed(nil, s.entry)
		if err != nil {
			continue
		}
		said := differs(alone, plain)
		at := slices.IndexFunc(groups, func(g *group) bool {
			both, err := parsed(nil, append(slices.Clone(g.entries), s.entry)...)
			return err == nil && contains(leavesOf(both), said) && contains(leavesOf(both), g.said) &&
				!slices.ContainsFunc(slices.Collect(maps.Keys(said)), func(at string) bool {
					return g.said[at] != nil
				})
		})
		if at < 0 {
			at, groups = len(groups), append(groups, &group{said: map[string]any{}})
		}
		groups[at].entries = append(groups[at].entries, s.entry)
		maps.Copy(groups[at].said, said)
	}
	return groups
}

// exempt are variables that options do not override. exclude removes broken hosts from every host list.
// --standalone overrides other options with a note, as in torchrun, and an endpoint overrides a port.
// orte_do_not_launch prevents the start of ranks in any case.
var exempt = []string{"exclude", "standalone", "rdzv-endpoint", "orte_do_not_launch"}

// weak are options with a documented lower precedence, or for which another variable of Hydra names the program.
var weak = []string{"default-hostfile", "launcher"}

// TestTypedOverridesVariables: options on the command line override all variables. `make soak` tries all options.
func TestTypedOverridesVariables(t *testing.T) {
	random := testneeds.Rand(t)
	for _, d := range []*Dialect{Gorun, Mpirun, Mpiexec, Torchrun} {
		parsed := func(line []string, variables ...string) (Invocation, error) {
			return Parse(d.Name, append(slices.Clone(line), "prog"), around(variables...))
		}
		inv, err := parsed(nil)
		require.NoError(t, err)
		plain, compared := leavesOf(inv), 0
		all := slices.DeleteFunc(settings(d), func(s setting) bool { return slices.Contains(exempt, s.option.Name()) })
		groups := grouped(all, parsed, plain)
		for o := range d.Options {
			line := eachSpelling(d, o)[0]
			alone, err := parsed(line)
			if !testneeds.Sampled(random, 5) || err != nil || alone.Print != nil || slices.Contains(weak, o.Name()) {
				continue
			}
			typed := differs(alone, plain)
			maps.DeleteFunc(typed, func(at string, value any) bool { // defaults, which other settings replace
				counts := strings.HasPrefix(at, ".Spec.PerNode")
				return counts && (o.Family != FamilyCount || value == "0") || o.Family == familyPE &&
					at == ".Spec.Place.Request.MapBy.Object"
			})
			if len(typed) == 0 {
				continue
			}
			for _, g := range groups {
				both, err := parsed(line, g.entries...)
				if !assert.NoError(t, err, "%s %v with %v", d.Name, line, g.entries) {
					continue
				}
				got := leavesOf(both)
				for at, value := range typed {
					assert.Equal(t, value, got[at], "%s %v with %v: %s", d.Name, line, g.entries, at)
					compared++
				}
			}
		}
		require.Greater(t, compared, testneeds.Count(0, 100))
		t.Logf("%s: %d groups, %d comparisons", d.Name, len(groups), compared)
	}
}

// TestPlacementVariablesAreExclusive: gorun ignores a placement variable if an option sets the placement
// differently. It would refuse both together.
func TestPlacementVariablesAreExclusive(t *testing.T) {
	ways := map[string]string{
		"GORUN_NUMA_BINDING=node": "--numa-binding node", "GORUN_RANKFILE=ranks.txt": "--rankfile ranks.txt",
		"GORUN_MAP_BY=core": "-bycore", "GORUN_BIND_TO=core": "-bind-to-core",
		"GORUN_CPUS_PER_RANK=2": "--cpus-per-rank 2", "OMPI_MCA_rmaps_base_cpus_per_rank=2": "-cpus-per-proc 2",
		"OMPI_MCA_rmaps_base_mapping_policy=core":         "--map-by socket",
		"OMPI_MCA_hwloc_base_binding_policy=none":         "--bind-to socket",
		"OMPI_MCA_orte_rankfile=ranks.txt":                "--map-by rankfile:file=ranks.txt",
		"PRTE_MCA_rmaps_default_mapping_policy=slot:pe=2": "--map-by slot:pe=3",
	}
	compared := 0
	for variable := range ways {
		for _, typed := range ways {
			alone := mustParse(t, "mpirun "+typed+" x").Spec.Place
			with := mustParse(t, "mpirun "+typed+" x", variable).Spec.Place
			numa, file, mapped := alone.NUMABinding != "", alone.RankFile != nil, alone.MapBy.Object != 0 ||
				alone.BindTo.Given || alone.CPUsPerRank > 0
			if numa || file {
				require.Equal(t, alone, with, "%s beside %s", variable, typed)
				compared++
			}
			if mapped && (strings.Contains(variable, "NUMA") || strings.Contains(strings.ToLower(variable), "rankfile")) {
				require.Equal(t, alone, with, "%s beside %s", variable, typed)
				compared++
			}
		}
	}
	require.Greater(t, compared, 40)
	for line, entry := range map[string]string{
		"mpirun --cpus-per-rank 2 x":           "OMPI_MCA_rmaps_base_mapping_policy=slot:pe=3",
		"mpirun --map-by slot:pe=3 x":          "GORUN_CPUS_PER_RANK=2",
		"mpirun -cpus-per-proc 3 x":            "GORUN_CPUS_PER_RANK=2",
		"mpirun --map-by core:oversubscribe x": "OMPI_MCA_rmaps_base_no_oversubscribe=1",
		"mpirun --oversubscribe x":             "PRTE_MCA_rmaps_default_mapping_policy=:nooversubscribe",
	} {
		alone, with := mustParse(t, line).Spec.Place, mustParse(t, line, entry).Spec.Place
		require.Equal(t, alone.MapBy.PE, with.MapBy.PE, line)
		require.Equal(t, alone.CPUsPerRank, with.CPUsPerRank, line)
		require.Equal(t, alone.MapBy.Oversubscribe, with.MapBy.Oversubscribe, line)
		require.False(t, with.MapBy.NoOversubscribe, line)
	}
	// gorun ignores a placement variable whose object is too small for the typed number of cores. Others apply.
	require.Equal(t, placement.ByNUMA,
		mustParse(t, "mpirun -cpus-per-proc 2 x", "GORUN_MAP_BY=core").Spec.Place.MapBy.Object)
	require.Equal(t, placement.ByPackage,
		mustParse(t, "mpirun -cpus-per-proc 2 x", "GORUN_MAP_BY=socket").Spec.Place.MapBy.Object)
	require.Equal(t, placement.ByCore,
		mustParse(t, "mpirun --oversubscribe x", "GORUN_MAP_BY=core").Spec.Place.MapBy.Object)
}
