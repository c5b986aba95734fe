package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProblems: every error message that users see.
func TestProblems(t *testing.T) {
	const (
		notRanks = "not a number from 1 to 1048576"
		notTime  = "not a time; write 90 (seconds), 1.5, 30m or 2h45m"
		binding  = "not yet: binding to cores and GPUs; leave it out, ranks then share all CPUs that you may use"
		streams  = "not 0, 1 (stdout), 2 (stderr), 3 (both), nor local ranks with one of these: 0:3,1:2"
	)
	for line, want := range map[string][]string{
		"gorun":              {"no program given: gorun [options] PROGRAM [ARGS...]"},
		"gorun --":           {"no program given: gorun [options] PROGRAM [ARGS...]"},
		"torchrun":           {"no program given: torchrun [options] PROGRAM [ARGS...]"},
		"gorun -n":           {"-n needs a value: -n N", "no program given: gorun [options] PROGRAM [ARGS...]"},
		"gorun -n --quiet x": {"-n needs a value: -n N"},
		"gorun --mca a":      {"--mca needs a value: --mca KEY VALUE"},
		"mpirun -np 2 -x ./hello": {"no program given: mpirun [options] PROGRAM [ARGS...]; -x took ./hello for its " +
			"NAME[=VALUE]"},
		"mpirun -mca btl ./hello": {"no program given: mpirun [options] PROGRAM [ARGS...]; -mca took btl ./hello for " +
			"its KEY VALUE"},
		"mpiexec -n 2 -genv A ./hello": {"no program given: mpiexec [options] PROGRAM [ARGS...]; -genv took A ./hello " +
			"for " +
			"its NAME VALUE"},
		"mpirun -np 2 -x A=1":         {"no program given: mpirun [options] PROGRAM [ARGS...]"},
		"mpirun -np 2 -H a":           {"no program given: mpirun [options] PROGRAM [ARGS...]"},
		"mpirun --bind-to cpu-list x": {"--bind-to cpu-list needs the CPUs: add --cpu-list LIST"},
		"gorun --timeout -- x":        {"--timeout needs a value: --timeout D"},

		// counts
		"gorun -n 0 x":                    {"-n 0: " + notRanks},
		"gorun -n -1 x":                   {"-n -1: " + notRanks},
		"gorun -n 4x x":                   {"-n 4x: " + notRanks},
		"gorun -n 99999999999999999999 x": {"-n 99999999999999999999: " + notRanks},
		"gorun --np= x":                   {"--np=: " + notRanks},
		"gorun --nproc-per-node gpus x": {
			"--nproc-per-node gpus: " + notRanks + ", nor auto, gpu, cpu; did you mean gpu?",
		},
		"torchrun --nproc-per-node atuo x": {
			"--nproc-per-node atuo: " + notRanks + ", nor auto, gpu, cpu; did you mean auto?",
		},
		"gorun --nproc-per-node GPU x": {"--nproc-per-node GPU: " + notRanks + ", nor auto, gpu, cpu"},
		"gorun -n 2 -np 3 x":           {"-np 3: contradicts -n 2"},
		"gorun -np 3 --nproc-per-node 2 --nnodes 1 x": {"-np 3 contradicts --nproc-per-node 2 with --nnodes 1, which " +
			"make 2"},
		"gorun -np 3 --nproc-per-node 2 x": {"-np 3 contradicts --nproc-per-node 2, which makes 2 on one host"},
		"gorun -np 3 --nproc-per-node gpu x": {"-np 3 and --nproc-per-node gpu both give the number of ranks: " +
			"keep one"},

		// hosts
		"gorun -H localhost:x,:2 x": {
			`-H localhost:x,:2: "localhost:x": the number of slots is "x", not a number from 1 to 1048576`,
			"-H localhost:x,:2: a host's name is empty",
		},
		"gorun --hostfile missing.txt x": {"--hostfile missing.txt: file does not exist"},
		"gorun --hostfile there.txt x": {`there.txt:2: slots=x: the number of slots is "x", ` +
			`not a number from 1 to 1048576`},
		"gorun -H other --hostfile here.txt x":                   {"-H other: the host file does not have other"},
		"gorun -H here --hostfile here.txt -n 5 x":               {"5 ranks are more than max-slots=4 of here (-H here)"},
		"gorun -H here --hostfile here.txt --nproc-per-node 5 x": {"5 ranks are more than max-slots=4 of here (-H here)"},
		"gorun --spares 1 x": {"--spares 1: a job can do without nodes only if gorun starts them or they join: add -H or " +
			"--hostfile, or leave it out"},
		"gorun --nnodes 2:1 x":   {"--nnodes 2:1: maximum 1 is below minimum 2"},
		"gorun --nnodes 0 x":     {"--nnodes 0: " + notRanks},
		"gorun --nnodes 1:2:3 x": {"--nnodes 1:2:3: " + notRanks},
		"gorun --node-rank 1 x": {"--node-rank 1: there is one node; for more, each " +
			"started by itself, add --nnodes N --master-addr ADDR --master-port PORT"},
		"gorun --node-rank x x": {"--node-rank x: not a number from 0 on"},

		// programs
		"gorun -m --no-python x":     {"--module and --no-python contradict each other: a module needs Python"},
		"gorun launch --no-python x": {"--no-python needs --use-env: a program that is not Python's knows no --local-rank"},
		"gorun --chdir= x":           {"--chdir=: the value is empty"},
		"gorun -x =1 x":              {"-x =1: the name of a variable is missing"},
		"gorun -x A*B x":             {"-x A*B: a pattern is the start of a name followed by *"},
		"gorun -x A*=1 x":            {"-x A*=1: a pattern is the start of a name followed by *"},
		"gorun -q=perhaps x":         {"-q=perhaps: a switch is 1 or 0, true or false"},

		// rendezvous
		"gorun --store etcd x": {"--store etcd: not one of auto, gorun, rank0"},
		"gorun --allow-from 10.0.0.0/33 x": {"--allow-from 10.0.0.0/33: not a network such as 10.0.0.0/8 or fd00::/8, " +
			"nor an IP address"},
		"gorun --allow-from node1 x": {"--allow-from node1: not a network such as 10.0.0.0/8 or fd00::/8, nor an " +
			"IP address"},
		"gorun --allow-from= x": {"--allow-from=: not a network such as 10.0.0.0/8 or fd00::/8, nor an IP " +
			"address"},
		"gorun --rdzv-backend etcd-v2 x": {"--rdzv-backend etcd-v2: gorun serves the rendezvous itself and needs no " +
			"etcd or plug-in; leave it out"},
		"gorun --rdzv-endpoint a:b x": {"--rdzv-endpoint a:b: not a port from 0 to 65535"},
		"gorun --rdzv-endpoint [::1]2 x": {"--rdzv-endpoint [::1]2: an address in brackets is followed by :PORT " +
			"or nothing"},
		"gorun --rdzv-endpoint :1 x":         {"--rdzv-endpoint :1: not an address or a name of a host"},
		"gorun --rdzv-endpoint http://a:1 x": {"--rdzv-endpoint http://a:1: not an address or a name of a host"},
		"gorun --master-addr [::1 x":         {"--master-addr [::1: missing ]"},
		"gorun --master-addr= x":             {"--master-addr=: not an address or a name of a host"},
		"gorun --master-port 65536 x":        {"--master-port 65536: not a port from 0 to 65535"},
		"gorun --master-port -1 x":           {"--master-port -1: not a port from 0 to 65535"},
		"gorun --rdzv-id a/b x": {"--rdzv-id a/b: the id becomes part of a directory's name, so it cannot " +
			"have a slash"},
		"gorun --rdzv-conf timeout x": {`--rdzv-conf timeout: "timeout" is not key=value`},
		"gorun --rdzv-conf is_host=0 x": {"--rdzv-conf is_host=0: is_host: gorun hosts the store of this job; leave " +
			"it out"},
		"gorun --rdzv-conf store_type=file x": {"--rdzv-conf store_type=file: store_type: gorun's store is TCP; leave " +
			"it out"},

		// output
		"gorun --stdin some x": {"--stdin some: not all, none, a rank, or several such as 1,3 and 0-3"},
		"gorun --stdin -1 x":   {"--stdin -1: not all, none, a rank, or several such as 1,3 and 0-3"},
		"gorun --label x": {
			"--label x: not one of auto, always, never", "no program given: gorun [options] PROGRAM [ARGS...]",
		},
		"gorun --tag-output --label never x": {"--tag-output and --label never contradict each other"},
		"gorun --tee 4 x":                    {"--tee 4: " + streams},
		"gorun -r 0:1, x":                    {"-r 0:1,: " + streams},
		"gorun -r0:9 x":                      {"-r0:9: " + streams},
		"gorun --redirects -1:2 x":           {"--redirects -1:2: " + streams},
		"gorun --local-ranks-filter 0,a x": {"--local-ranks-filter 0,a: not local ranks separated by commas, such " +
			"as 0,1,2"},
		"gorun --logs-specs mine x": {"--logs-specs mine: gorun loads no Python class; use --log-dir, " +
			"--redirects, --tee"},

		// end of the job
		"gorun --timeout soon x":                 {"--timeout soon: " + notTime},
		"gorun --timeout -1 x":                   {"--timeout -1: a time cannot be negative"},
		"gorun --timeout NaN x":                  {"--timeout NaN: " + notTime},
		"gorun --timeout 1e300 x":                {"--timeout 1e300: " + notTime},
		"gorun --grace -1s x":                    {"--grace -1s: a time cannot be negative"},
		"gorun --grace 3 --shutdown-timeout 4 x": {"--shutdown-timeout 4: contradicts --grace 3"},
		"gorun --on-failure ignore x":            {"--on-failure ignore: not one of stop, continue"},
		"gorun --min-success 0 x":                {"--min-success 0: not a number from 1 on"},
		"gorun --early-exit yes x":               {"--early-exit yes: not one of allow, warn, fail"},
		"gorun --max-restarts -1 x":              {"--max-restarts -1: not a number from 0 on"},
		"gorun --monitor-interval often x":       {"--monitor-interval often: " + notTime},
		"gorun --start-method thread x":          {"--start-method thread: not one of spawn, fork, forkserver"},
		"gorun --signals-to-handle SIGNO x":      {"--signals-to-handle SIGNO: SIGNO is not a signal"},
		"gorun --signals-to-handle KILL x":       {"--signals-to-handle KILL: SIGKILL cannot be handled"},
		"gorun --signals-to-handle CHLD x": {"--signals-to-handle CHLD: SIGCHLD reaches gorun all the time and would " +
			"end the job at once: leave it out"},

		// inspection
		"gorun --json x": {"--json prints the plan of --dry-run: add it; --report FILE writes how the " +
			"job ended"},
		"gorun --dry-run --report r x": {"--report and --dry-run contradict each other: a plan has no end to report"},
		"gorun -qv x":                  {"--quiet and --verbose contradict each other"},
		"gorun --print-completion tcsh": {"--print-completion tcsh: gorun has no completion for tcsh; there is bash, " +
			"zsh and fish"},
		"torchrun --print-completion korn": {"--print-completion korn: not one of bash, zsh, fish"},

		// binding, and options of other launchers
		"gorun --bind-to croe x": {`--bind-to croe: unknown object "croe" (did you mean core?); known: none,` +
			` board, machine, package, socket, skt, numa, l3cache, l2cache, core, l1cache, hwthread, thread`},
		"gorun --map-by ppr:x:socket x": {`--map-by ppr:x:socket: ranks per object: "x" is not a number from 1 to 1048576`},
		"gorun --cpus-per-rank 0 x":     {"--cpus-per-rank 0: not a number from 1 to 1048576"},
		"gorun -H here.txt:2 x":         {"-H here.txt:2: a file, not a host: use `--hostfile here.txt`"},
		"mpirun --host ./none.txt x":    {`--host ./none.txt: "./none.txt" is not a host name: it contains '/'`},
		"gorun init":                    {"init: not a command of gorun; gorun run init starts a program of that name"},
		"gorun --gpus 2,2 x":            {"--gpus 2,2: GPU 2 is named twice"},
		"gorun --bind-mem near x": {"--bind-mem near: not one of preferred, bind, " +
			"interleave, none"},
		"gorun --numa-binding nodes x": {`--numa-binding nodes: unknown binding "nodes" (did you mean node?); ` +
			`known: node, socket, exclusive, core-complex`},
		"gorun -mca btl": {"-mca needs a value: -mca KEY VALUE"},
		"gorun --mca=btl -n 2 x": {"--mca=btl: a parameter and its value are needed: --mca " +
			"KEY VALUE"},
		"gorun -bynode --map-by core x":     {"--map-by core: contradicts -bynode"},
		"gorun -ppn 2 --nproc-per-node 3 x": {"--nproc-per-node 3: contradicts -ppn 2"},
		"gorun --nodes 3 x":                 {"--nodes 3: use --nnodes 3"},
		"gorun --nodes= x":                  {"--nodes=: use --nnodes ''"},
		"gorun -app a;b x":                  {"-app a;b names the programs: leave x out"},
		"gorun -N2 x": {"-N2: use --nproc-per-node 2 for ranks per node, as with " +
			"mpirun; for nodes, as with Slurm, --nnodes 2"},
		"gorun -p gpu --time 10 x": {
			"-p gpu: this is an option of Slurm: pass it to salloc, sbatch or gorun sbatch",
			"--time 10: this is an option of Slurm: pass it to salloc, sbatch or gorun sbatch; gorun's own limit is --timeout",
		},
		"gorun --num_processes 2 x": {"--num_processes 2: use -n 2"},
		"gorun --display tree x": {"--display tree: tree: not one of map, allocation, " +
			"bindings, topo"},
		"gorun --tag-output -prepend-pattern %r x": {"-prepend-pattern %r: contradicts --tag-output"},
		"gorun --output rank --tag-output x":       {"--tag-output: contradicts --output rank"},
		"gorun --xml x":                            {"--xml: " + noXML},
		"gorun --xml-file f x":                     {"--xml-file f: " + noXML},
		"gorun --output tag,xml x":                 {"--output tag,xml: xml: " + noXML},
		"mpirun --mca orte_xml_output 1 x":         {"--mca orte_xml_output 1: " + noXML},
		"gorun --label never --output timestamp x": {"--output timestamp and --label never contradict each other"},
		"gorun --output tag-detailed x": {"--output tag-detailed: labels have no process ids; use " +
			"--prepend-pattern '[1,%r][%h]<%s>: '"},
		"gorun --output tag,full x": {"--output tag,full: full: not one of tag, rank, " +
			"timestamp, merge, dir=DIR, file=NAME"},
		"gorun --output dir=a,file=b x": {"--output dir=a,file=b: file=b: contradicts --output " +
			"dir=a,file=b"},
		"gorun --output-filename a:raw x":   {"--output-filename a:raw: after the name come :nocopy and :nojobid, not :raw"},
		"gorun --output-filename :nocopy x": {"--output-filename :nocopy: the name is missing"},
		"gorun --output-filename a:nocopy --output merge x": {"--output-filename a:nocopy: nothing is shown, so there " +
			"is nothing to merge"},
		"gorun --output-filename a --errfile-pattern b x": {"--output-filename a and --errfile-pattern b both name " +
			"the files: keep one"},
		"gorun --outfile-pattern a --log-dir b --redirects 3 x": {
			"--log-dir b contradicts --outfile-pattern a, which names the files in another way: keep one",
			"--redirects 3 contradicts --outfile-pattern a, which names the files in another way: keep one",
		},
		"gorun --mpi=list --overlap x": {
			"--mpi=list: not one of auto, pmi1, pmi2, pmix, none",
			"--overlap: srun's own option: leave it out; gorun adds it to the srun of its agents",
		},
		"gorun --world=each x": {"--world=each: not one of job, app"},

		// all at once
		"gorun --bogus -n x --timeout y -H there:y --max-restarts -1": {
			"unknown option --bogus", "-n x: " + notRanks, "--timeout y: " + notTime,
			"--max-restarts -1: not a number from 0 on",
			"no program given: gorun [options] PROGRAM [ARGS...]",
			`-H there:y: "there:y": the number of slots is "y", not a number from 1 to 1048576`,
		},
	} {
		t.Run(line, func(t *testing.T) { require.Equal(t, want, problems(t, line)) })
	}
}

func TestEmptyProgram(t *testing.T) {
	for _, args := range [][]string{{"-n", "2", ""}, {"", "x"}, {"--", ""}, {"-n", "1", "x", ":", "-n", "1", ""}} {
		_, err := Parse("gorun", args, around())
		require.EqualError(t, err, "empty program name: an unset variable?", "%q", args)
	}
}

func TestUnknownOptions(t *testing.T) {
	for line, want := range map[string]string{
		"gorun --nproc-per-nod 3 x": "unknown option --nproc-per-nod: did you mean --nproc-per-node?",
		"gorun --nproc_pernode=3 x": "unknown option --nproc_pernode: did you mean --nproc-per-node?",
		"gorun --Grace 3 x":         "unknown option --Grace: did you mean --grace?",
		"gorun --timout 3 x":        "unknown option --timout: did you mean --timeout?",
		"gorun --host-file h x":     "unknown option --host-file: did you mean --hostfile?",
		"gorun -nq 3":               "unknown option -nq",
		"gorun ---n 3":              "unknown option ---n",
		"gorun --frobnicate x":      "unknown option --frobnicate",
		"gorun --num-proc 2 x":      "unknown option --num-proc: did you mean -n?",
		"gorun --Verb x":            "unknown option --Verb: did you mean --verbose?",
		"gorun --master_ x":         "unknown option --master_: did you mean --master-addr or --master-port?",
		"gorun --no x":              "unknown option --no: did you mean --no-python, --node-rank, --no-registry or --nnodes?",
		"gorun --gpu 2 x":           "unknown option --gpu: did you mean --gpus, --gpus-per-rank or --nproc-per-node?",
		"gorun --node 2 x":          "unknown option --node: did you mean --nnodes, --node-rank or -H?",
		"gorun --cpu 2 x":           "unknown option --cpu: did you mean --cpus-per-rank or --bind-to?",
		"gorun --out f x": "unknown option --out: did you mean --output, --output-filename, --outfile-pattern or " +
			"--output-directory?",
		"gorun -= x":   "unknown option -",
		"gorun --=3 x": "unknown option --",
		"gorun --use-env x": "unknown option --use-env: only gorun launch has it, where --local-rank is put " +
			"before a script's arguments",
		"torchrun -np 3 x": "unknown option -np: gorun has it, torchrun does not; call gorun, or use " +
			"--nproc-per-node N|auto|gpu|cpu",
		"torchrun -n4 x": "unknown option -n4: gorun has it, torchrun does not; call gorun, or use " +
			"--nproc-per-node N|auto|gpu|cpu",
		"torchrun -x A=1 x":              "unknown option -x: gorun has it, torchrun does not; call gorun for it",
		"torchrun -nnodes 1 x":           "unknown option -nnodes: did you mean --nnodes?",
		"torchrun --nprocs-per-node 3 x": "unknown option --nprocs-per-node: did you mean --nproc-per-node?",
		"torchrun --rdzv x": "--rdzv is ambiguous: it may be --rdzv-backend, --rdzv-endpoint, --rdzv-id or " +
			"--rdzv-conf",
		"torchrun --log x": "--log is ambiguous: it may be --log-dir, --log-line-prefix-template or " +
			"--logs-specs",
	} {
		t.Run(line, func(t *testing.T) {
			require.Contains(t, problems(t, line), want)
		})
	}
}

// The value of a misspelled option must not become the program.
func TestValueOfUnknownOptionIsSkipped(t *testing.T) {
	require.Equal(t, []string{
		"unknown option --timout: did you mean --timeout?",
		"--grace x: not a time; write 90 (seconds), 1.5, 30m or 2h45m",
	},
		problems(t, "gorun --timout 3 --grace x prog"))
	require.Equal(t, []string{
		"unknown option --num-proc: did you mean -n?",
		"unknown option --verbos: did you mean --verbose?",
	},
		problems(t, "gorun --num-proc 2 --hosts localhost --verbos ./c"))
	require.Equal(t, []string{
		"unknown option --master: did you mean --master-addr or --master-port?",
		"--grace x: not a time; write 90 (seconds), 1.5, 30m or 2h45m",
	},
		problems(t, "gorun --master h --grace x prog"))
	require.Equal(t, []string{
		"--master is ambiguous: it may be --master-addr or --master-port",
		"--grace x: not a time; write 90 (seconds), 1.5, 30m or 2h45m",
	},
		problems(t, "torchrun --master h --grace x prog"))
}

// torchrun's abbreviations keep their meaning: our own options make none of them ambiguous.
func TestPrefixes(t *testing.T) {
	require.Empty(t, mustParse(t, "torchrun --stan --max_r 0 --rdzv-b c10d x").Notes)
	require.Equal(t, "j", mustParse(t, "torchrun --rdzv-i j x").Spec.RunID)
	require.True(t, mustParse(t, "torchrun --dry x").DryRun)
	require.Equal(t, []string{"unknown option --stan: did you mean --standalone?"}, problems(t, "gorun --stan x")[:1],
		"gorun's own dialect has none")
}
