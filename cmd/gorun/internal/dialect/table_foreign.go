package dialect

// foreignTable holds options of mpirun, mpiexec, srun, accelerate and deepspeed
// that users type by habit: each is refused with the way to get the same here.
var foreignTable = []Option{
	{Names: []string{"mca", "gmca", "omca", "prtemca", "pmixmca"}, Value: "KEY VALUE", words: 2, Group: GroupRefused, Help: "parameters of Open MPI reach ranks as variables: use -x OMPI_MCA_KEY=VALUE"},
	{Names: []string{"genv", "env"}, Value: "NAME VALUE", words: 2, Group: GroupRefused, Help: "use -x NAME=VALUE"},
	{Names: []string{"genvlist", "envlist"}, Value: "NAME,...", Group: GroupRefused, Help: "ranks inherit every variable; use -x NAME=VALUE to change one"},
	{Names: []string{"genvnone", "envnone"}, Group: GroupRefused, Help: "ranks inherit every variable; use env -i NAME=VALUE gorun ... for an empty environment"},
	{Names: []string{"export"}, Value: "LIST", Group: GroupRefused, Help: "ranks inherit every variable; use -x NAME=VALUE for each one to add"},
	{Names: []string{"f", "configfile", "app"}, Value: "FILE", Group: GroupRefused, Help: "use --hostfile FILE for hosts; for several programs write prog1 : -n 2 prog2"},
	{Names: []string{"ntasks", "num-processes", "nproc"}, Value: "N", Group: GroupRefused, Help: "use -n N"},
	{Names: []string{"N", "ppn", "perhost", "npernode", "ntasks-per-node", "num-gpus", "gpus-per-node"}, Value: "N", attached: true, Group: GroupRefused, Help: "use --nproc-per-node N"},
	{Names: []string{"pernode"}, Group: GroupRefused, Help: "use --nproc-per-node 1"},
	{Names: []string{"nodes", "num-nodes", "num-machines"}, Value: "N", Group: GroupRefused, Help: "use --nnodes N"},
	{Names: []string{"machine-rank"}, Value: "N", Group: GroupRefused, Help: "use --node-rank N"},
	{Names: []string{"main-process-port"}, Value: "PORT", Group: GroupRefused, Help: "use --master-port PORT"},
	{Names: []string{"main-process-ip"}, Value: "ADDR", Group: GroupRefused, Help: "use --master-addr ADDR"},
	{Names: []string{"rank-by", "cpus-per-proc", "cpus-per-rank", "cpu-set", "cpu-bind", "npersocket", "rankfile"}, Value: "POLICY", Group: GroupRefused, Help: "not yet: binding to cores and GPUs; leave it out, ranks then share all CPUs that you may use"},
	{Names: []string{"bind-to-core", "bind-to-socket", "bycore", "bysocket", "nolocal"}, Group: GroupRefused, Help: "not yet: binding to cores and GPUs; leave it out, ranks then share all CPUs that you may use"},
	{Names: []string{"report-bindings", "display-map", "display-allocation", "print-rank-map"}, Group: GroupRefused, Help: "use --dry-run to see the plan"},
	{Names: []string{"display"}, Value: "WHAT", Group: GroupRefused, Help: "use --dry-run to see the plan"},
	{Names: []string{"output-filename"}, Value: "DIR", Group: GroupRefused, Help: "use --log-dir DIR with --tee 3, or with --redirects 3 to print nothing"},
	{Names: []string{"outfile-pattern", "errfile-pattern"}, Value: "PATTERN", Group: GroupRefused, Help: "use --log-dir DIR with --redirects 3"},
	{Names: []string{"output"}, Value: "HOW", Group: GroupRefused, Help: "use --tag-output, --label or --log-dir DIR with --tee 3"},
	{Names: []string{"prepend-pattern"}, Value: "PATTERN", Group: GroupRefused, Help: "use --tee 3 with --log-line-prefix-template TEMPLATE"},
	{Names: []string{"timestamp-output", "prepend-timestamp", "xml"}, Group: GroupRefused, Help: "gorun adds ranks to lines, never times; pipe the output through ts"},
	{Names: []string{"merge-stderr-to-stdout"}, Group: GroupRefused, Help: "let the shell do it: gorun ... 2>&1"},
	{Names: []string{"prefix", "launcher", "launcher-exec", "bootstrap", "rmk", "iface", "launch-agent"}, Value: "VALUE", Group: GroupRefused, Help: "not yet: other hosts come with SSH support; leave it out on one host"},
	{Names: []string{"forward-signals"}, Value: "LIST", Group: GroupRefused, Help: "gorun forwards every signal that can be; use --signals-to-handle for those that end the job"},
}
