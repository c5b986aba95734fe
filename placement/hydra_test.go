package placement

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

var hydraLine = regexp.MustCompile(`(?m)^process (\d+) binding: ([01]+)`)

// askHydra returns the bindings of MPICH's mpiexec on a synthetic machine, in the format of [answer].
func askHydra(t *testing.T, hydra, machine string, ranks int, options []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, hydra, append(append([]string{"-n", strconv.Itoa(ranks)}, options...), "true")...)
	cmd.Env = append(os.Environ(), "HWLOC_SYNTHETIC="+machine, "HWLOC_THISSYSTEM=1", "HYDRA_TOPO_DEBUG=1")
	output, _ := cmd.CombinedOutput() // the kernel may not have the CPUs to bind to
	sets := make(map[int]CPUSet)
	for _, found := range hydraLine.FindAllStringSubmatch(string(output), -1) {
		rank, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		var cpus []int
		for cpu, bit := range found[2] {
			if bit == '1' {
				cpus = append(cpus, cpu)
			}
		}
		sets[rank] = NewCPUSet(cpus...)
	}
	require.Len(t, sets, ranks, "%s", output)
	return answer(synthetic(t, machine), sets)
}

// Bindings are equal to those of MPICH's mpiexec while there is room. Without room, Hydra starts over
// and gorun fails.
func TestMapAsHydra(t *testing.T) {
	hydra := testneeds.Program(t, "hydra", "mpiexec.hydra")
	random := testneeds.Rand(t)
	objects := []string{"core", "hwthread", "numa", "socket", "core:2", "core:3", "hwthread:2", "user:0+2,1"}
	maps := []string{"", "", "core", "numa", "socket", "core:2", "core:3", "hwthread:2", "numa:2", "socket:2"}
	for asked := 0; asked < testneeds.Count(12, 300); {
		machine := oracleMachines[random.IntN(len(oracleMachines))]
		bind, by := objects[random.IntN(len(objects))], maps[random.IntN(len(maps))]
		if strings.Contains(bind, ":") {
			by = "" // Hydra supports other objects there
		}
		req, options := Request{Ranks: 1 + random.IntN(12)}, []string{"-bind-to", bind}
		if strings.HasPrefix(bind, "user:") {
			req.Ranks = 2 // Hydra shows each list once
		}
		var err error
		req.BindTo, err = ParseBindTo(bind)
		require.NoError(t, err)
		if by != "" {
			options = append(options, "-map-by", by)
			req.MapBy, err = ParseMapBy(by)
			require.NoError(t, err)
		}
		layout, err := Map(req, []Machine{synthetic(t, machine)})
		if err != nil {
			continue
		}
		if n := req.MapBy.Count; n > 0 {
			all := len(newTree("", synthetic(t, machine)).objects(req.MapBy.Object))
			if all%n != 0 && req.Ranks > all/n+1 {
				continue // the last group is smaller; Hydra continues it with the first objects
			}
		}
		asked++
		sets := make(map[int]CPUSet)
		for rank, r := range layout.Ranks {
			sets[rank] = r.CPUs
		}
		what := fmt.Sprintf("%s, %d ranks, %s", machine, req.Ranks, strings.Join(options, " "))
		if ours, theirs := answer(synthetic(t, machine), sets),
			askHydra(t, hydra, machine, req.Ranks, options); ours != theirs {
			t.Errorf("%s\n  gorun: %s\n  Hydra: %s", what, ours, theirs)
		}
	}
}
