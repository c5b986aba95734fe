package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement"
)

// TestTeachingLines: command lines from tutorials work unchanged.
func TestTeachingLines(t *testing.T) {
	for line, check := range map[string]func(s *job.Spec){
		"mpirun -np 4 python pytorch_mpi_example.py": func(s *job.Spec) {
			require.Equal(t, "python", s.Apps[0].Program)
		},
		"mpirun -np 4 -H node1:4,node2:4 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH -x " +
			"MASTER_ADDR -x MASTER_PORT python x.py": func(s *job.Spec) {
			require.True(t, s.Place.BindTo.Given)
			require.Equal(t, placement.BySlot, s.Place.MapBy.Object)
			require.Len(t, s.Exports, 5)
			require.Equal(t, job.Export{Name: "NCCL_DEBUG", Value: "INFO", HasValue: true}, s.Exports[0])
		},
		"mpirun -np 4 -H node1:4,node2:4,node3:4,node4:4 ./x": func(s *job.Spec) {
			require.Equal(t, 16, hosts.TotalSlots(s.Hosts))
			require.False(t, s.Place.MapBy.NoOversubscribe)
		},
		"mpirun -np 4 --map-by ppr:1:gpu --bind-to core ./x": func(s *job.Spec) {
			require.Equal(t, placement.ByGPU, s.Place.MapBy.Object)
			require.Equal(t, 1, s.Place.MapBy.PPR)
		},
		"mpirun --map-by ppr:4:node ./x": func(s *job.Spec) {
			require.Equal(t, job.CountUnset, s.PerNode.Kind, "the mapping says how many")
		},
		"mpirun -np 16 -H node1:8,node2:8 ./all_reduce_perf -b 8 -e 8G -f 2 -g 1": func(s *job.Spec) {
			require.Equal(t, strings.Fields("-b 8 -e 8G -f 2 -g 1"), s.Apps[0].Args)
		},
		"mpirun -np 2 --mca hwloc_base_binding_policy numa ./x": func(s *job.Spec) {
			require.Equal(t, placement.ByNUMA, s.Place.BindTo.Object)
			require.Equal(t, "OMPI_MCA_hwloc_base_binding_policy", s.Exports[0].Name)
		},
	} {
		inv := mustParse(t, line)
		check(&inv.Spec)
	}
}

// TestInterface: an interface that is missing here may exist on other hosts, so gorun only prints a note.
func TestInterface(t *testing.T) {
	here := around()
	here.HasInterface = func(name string) bool { return name == "eth0" }
	for name, notes := range map[string][]string{
		"eth0": nil,
		"eth7": {"-iface eth7: this host has no network interface of that name; ip link lists them"},
	} {
		inv, err := Parse("mpiexec", []string{"-iface", name, "-n", "2", "x"}, here)
		require.NoError(t, err)
		require.Equal(t, notes, inv.Notes)
	}
}

// TestParameters: parameters of Open MPI's launcher have an effect.
func TestParameters(t *testing.T) {
	spec := mustParse(t, "mpirun -mca rmaps_base_mapping_policy core -mca rmaps_base_no_oversubscribe 1 -gmca "+
		"plm_rsh_agent kubectl --prtemca rmaps_default_ranking_policy fill -np 2 x").Spec
	require.Equal(t, placement.ByCore, spec.Place.MapBy.Object)
	require.True(t, spec.Place.MapBy.NoOversubscribe)
	require.False(t, spec.Oversubscribe)
	require.Equal(t, []string{"kubectl"}, spec.Reach.Command)
	require.Equal(t, placement.RankFill, spec.Place.RankBy.Order)
	require.Len(t, spec.Exports, 4)
	require.Nil(t, mustParse(t, "mpirun -mca plm_rsh_agent ssh -np 2 x").Spec.Reach.Command, "that is what gorun does")

	spec = mustParse(t, "mpirun -np 2 x", "OMPI_MCA_hwloc_base_binding_policy=none",
		"PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe").Spec
	require.True(t, spec.Place.BindTo.Given)
	require.True(t, spec.Place.MapBy.Oversubscribe)
	require.False(t, mustParse(t, "gorun -np 2 x", "OMPI_MCA_hwloc_base_binding_policy=none").Spec.Place.BindTo.Given,
		"only under their launcher's name")
	require.Equal(t, placement.ByCore,
		mustParse(t, "mpirun -bind-to core x", "OMPI_MCA_hwloc_base_binding_policy=none").Spec.Place.BindTo.Object)
}

// TestWhatLaunchersTakeForGranted shows the default counts and slots under each name.
func TestWhatLaunchersTakeForGranted(t *testing.T) {
	for line, want := range map[string]struct {
		perNode job.Count
		hosts   string
	}{
		"mpirun x":                             {job.Count{Kind: job.CountCore, From: "mpirun's default"}, ""},
		"mpiexec x":                            {job.Count{Kind: job.CountFixed, N: 1, From: "mpiexec's default"}, ""},
		"gorun x":                              {job.Count{}, ""},
		"mpirun -H a,b x":                      {job.Count{}, "a:1 b:1"},
		"mpiexec -hosts a,b:2,b x":             {job.Count{}, "a:1 b:3"},
		"mpirun -N 2 -H a,b x":                 {job.Count{Kind: job.CountFixed, N: 2, From: "-N 2"}, "a:1 b:1"},
		"mpiexec -ppn 2 -hosts a,b -n 5 x":     {job.Count{}, "a:2 b:2"},
		"mpiexec -f cluster.txt x":             {job.Count{}, "node1:2 node2:2 node3:2 node4:2"},
		"mpiexec -machinefile odd.txt -n 3 x":  {job.Count{}, "here:2*"},
		"mpirun --default-hostfile here.txt x": {job.Count{}, "here:3*"},
		"mpirun -nolocal -H here,a x":          {job.Count{}, "a:1"},
	} {
		spec := mustParse(t, line).Spec
		require.Equal(t, want.perNode, spec.PerNode, line)
		require.Equal(t, want.hosts, listed(spec.Hosts), line)
		require.Equal(t, !strings.HasPrefix(line, "gorun"), spec.Oversubscribe, line)
	}
	require.Equal(t, 4, mustParse(t, "mpiexec x", "I_MPI_PERHOST=4").Spec.PerNode.N)
	require.Equal(t, "node1:2 node2:2 node3:2 node4:2",
		listed(mustParse(t, "mpiexec x", "HYDRA_HOST_FILE=cluster.txt").Spec.Hosts))
}

// TestBlocks: each program of a command line has its own count, variables, hosts and placement.
func TestBlocks(t *testing.T) {
	spec := mustParse(t,
		"mpirun -n 1 -H a -x A=1 -wdir /one ./server : -H b:4,c -n 5 -mca pml ob1 -bind-to core ./client").Spec
	server, client := spec.Apps[0], spec.Apps[1]
	require.Equal(t, "a:1 b:4 c:1", listed(spec.Hosts))
	require.Equal(t, "a", listed(server.Hosts))
	require.Equal(t, "b:4 c", listed(client.Hosts))
	require.Equal(t, []job.Export{{Name: "A", Value: "1", HasValue: true}}, server.Exports)
	require.Equal(t, "OMPI_MCA_pml", client.Exports[0].Name)
	require.Equal(t, "/one", server.Dir)
	require.Nil(t, server.Place)
	require.Equal(t, placement.ByCore, client.Place.BindTo.Object)
	require.False(t, spec.Place.BindTo.Given)

	spec = mustParse(t, "gorun -H a:2,b -x A=1 -n 1 x : -n 2 y").Spec
	require.Nil(t, spec.Apps[0].Hosts, "before the first program they hold for all")
	require.Len(t, spec.Exports, 1)
	spec = mustParse(t, "mpirun -configfile programs").Spec
	require.Equal(t, []string{"one word"}, spec.Apps[0].Args)
	require.Equal(t, []string{"$HOME"}, spec.Apps[1].Args, "no shell reads the file")
	require.Equal(t, "A", spec.Apps[1].Exports[0].Name)
	require.Equal(t, []string{"-envnone: it counts for all of several programs: write -genvnone or -genvlist NAME,..., " +
		"or -envexcl NAME,... for what one of them is not to have"},
		problems(t, "mpiexec -n 1 x : -n 1 -envnone y"))
	require.True(t, mustParse(t, "mpiexec -n 1 -envnone x : -n 1 -envnone y").Spec.ExportsOnly)
}

// TestEnvironmentOfPrograms: -envall may precede each program, and -tune belongs to Intel MPI.
func TestEnvironmentOfPrograms(t *testing.T) {
	require.True(t, mustParse(t, "mpiexec -n 1 -envall x : -n 1 -envall y").Spec.ExportAll)
	require.Equal(t, []string{"-envall contradicts -genvnone"}, problems(t, "mpiexec -genvnone -n 1 x : -n 1 -envall y"))
	want := job.Export{Name: "I_MPI_TUNING_BIN", Value: "/opt/t.dat", HasValue: true, From: "-tune /opt/t.dat"}
	require.Equal(t, []job.Export{want}, mustParse(t, "mpiexec -tune /opt/t.dat -n 2 x").Spec.Exports)
	require.Equal(t, []string{"-tune=: the value is empty"}, problems(t, "mpiexec -tune= -n 2 x"))
	require.Contains(t, mustParse(t, "mpiexec -am tune.conf -n 2 x").Spec.Exports[0].Name, "OMPI_MCA_",
		"which is Open MPI's")
}

// TestMissingWords: an option never becomes the value of a parameter, and hints begin with the name of gorun that
// the user typed.
func TestMissingWords(t *testing.T) {
	require.Equal(t, []string{"-mca needs a value: -mca KEY VALUE"}, problems(t, "mpirun -mca btl -n 2 x")[:1])
	require.Equal(t, []string{"-genv needs a value: -genv NAME VALUE"}, problems(t, "mpiexec -genv FOO -n 1 x")[:1])
	require.Equal(t, "-v", mustParse(t, "mpirun -mca plm_rsh_args -v -n 2 x").Spec.Exports[0].Value)
	require.Equal(t, "-n", mustParse(t, "mpiexec -genv FLAG=-n -n 2 x").Spec.Exports[0].Value)
	require.Equal(t, []string{"–np starts with a typographic dash: write --np"},
		problems(t, "mpirun –np 2 x"))
	require.Equal(t, []string{
		"—host=a starts with a typographic dash: write --host=a",
		"−n starts with a typographic dash: write -n",
	}, problems(t, "gorun —host=a −n 2 x –y"))
	require.Equal(t, "–x", mustParse(t, "gorun -- –x").Spec.Apps[0].Program)
	require.Equal(t, []string{"--gdb: put the debugger before the program, as in mpirun -n 2 xterm -e gdb ./prog"},
		problems(t, "mpirun --gdb -n 2 x"))
	require.Equal(t, []string{"--gdb: put the debugger before the program, as in gorun -n 2 xterm -e gdb ./prog"},
		problems(t, "gorun --gdb -n 2 x"))
}

// TestLettersOfLaunchers: -N, -s and --debug mean the same as in the launcher of that name.
func TestLettersOfLaunchers(t *testing.T) {
	require.Equal(t, []string{"x"}, mustParse(t, "mpirun -s -np 2 x").Spec.Reach.Copy)
	require.Equal(t, job.StdinAll, mustParse(t, "mpiexec -s all -n 2 x").Spec.Stdin.Kind)
	require.Equal(t, 2, mustParse(t, "mpiexec -N2 x").Spec.PerNode.N)
	require.Equal(t, 1, mustParse(t, "mpiexec -debug x").Verbose)
	require.Contains(t, problems(t, "mpirun --debug x")[0], "put the debugger before the program")
	require.Contains(t, problems(t, "gorun -s x")[0], "--copy")
}

// The qualifiers that Open MPI 5 writes after an object, and the bindings of Hydra.
func TestMappingsOfLaunchers(t *testing.T) {
	inv := mustParse(t, "mpirun -np 2 --map-by core:NOLOCAL:DISPLAY:DONOTLAUNCH -H here,a x")
	require.True(t, inv.DryRun)
	require.Equal(t, "a:1", listed(inv.Spec.Hosts))
	require.True(t, inv.Display.Map)
	require.Equal(t, placement.ByCore, inv.Spec.Place.MapBy.Object)
	require.NotNil(t, mustParse(t, "mpirun -np 2 --map-by rankfile:file=ranks.txt x").Spec.Place.RankFile)
	require.Equal(t, placement.MapBy{Object: placement.ByNUMA, PE: 3, From: "-cpus-per-proc 3"},
		mustParse(t, "mpirun -cpus-per-proc 3 -np 2 x").Spec.Place.MapBy)
	require.Equal(t, placement.MapBy{Object: placement.ByPackage, PE: 2, From: "--map-by socket"},
		mustParse(t, "mpirun -cpus-per-proc 2 --map-by socket -np 2 x").Spec.Place.MapBy)
	require.Contains(t, problems(t, "mpirun --map-by seq -np 2 x")[0], "use --rankfile FILE")
	require.Equal(t, placement.ByCore, mustParse(t, "mpiexec -bind-to rr -n 2 x").Spec.Place.BindTo.Object)
	for line, want := range map[string]placement.MapBy{
		"mpiexec -map-by core:2 -n 2 x":    {Object: placement.ByCore, Count: 2},
		"mpiexec -map-by numa:2 -n 2 x":    {Object: placement.ByNUMA, Count: 2},
		"mpiexec -map-by machine -n 2 x":   {Object: placement.BySlot},
		"mpiexec -map-by l2dcache -n 2 x":  {Object: placement.ByL2},
		"mpiexec -map-by l3ucache:2 -n4 x": {Object: placement.ByL3, Count: 2},
		"mpiexec -map-by l1icache -n 2 x":  {Object: placement.ByCore},
	} {
		got := mustParse(t, line).Spec.Place.MapBy
		got.From = ""
		require.Equal(t, want, got, line)
	}
	require.Equal(t, placement.ByL2, mustParse(t, "mpiexec -bind-to l2ucache:2 -n 2 x").Spec.Place.BindTo.Object)
	for line, want := range map[string]string{
		"mpiexec -map-by l4cache -n 2 x": `-map-by l4cache: unknown object "l4cache" (did you mean l3cache?); known: `,
		"mpiexec -map-by ib0 -n 2 x": "-map-by ib0: use --map-by nic, or --map-by dist:NAME for the NUMA nodes in " +
			"the order of their distance to one",
		"mpiexec -map-by gpu:2 -n 2 x":     "-map-by gpu:2: use --map-by gpu --gpus-per-rank 2",
		"mpiexec -map-by gpu1 -n 2 x":      "-map-by gpu1: use --map-by gpu --gpus 1",
		"mpiexec -bind-to gpu0 -n 2 x":     "-bind-to gpu0: gorun binds ranks to CPUs near a device: use --map-by gpu",
		"mpiexec -bind-to eth:2 -n 2 x":    "-bind-to eth:2: gorun binds ranks to CPUs near a device: use --map-by nic",
		"mpiexec -map-by core:0 -n 2 x":    `-map-by core:0: unknown modifier "0"`,
		"mpiexec -map-by node:2 -n 2 x":    `-map-by node:2: unknown modifier "2"`,
		"mpiexec -map-by ppr:1:core:2 -n1": `unknown modifier "2"`,
	} {
		require.Contains(t, problems(t, line)[0], want, line)
	}
	require.Equal(t, []string{"-bind-to gpu: gorun binds ranks to CPUs near a device: use --map-by gpu"},
		problems(t, "mpiexec -bind-to gpu -n 2 x"))
}
