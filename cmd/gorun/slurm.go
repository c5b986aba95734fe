package main

import (
	"errors"

	"gorun/cmd/gorun/internal/dialect"
)

// slurmRow describes an option of Slurm. names has its long name and, if there is one, its letter; value is "" for a
// switch.
type slurmRow struct{ names, value, help string }

// optional is the value of an option that may have one after "=".
const optional = "[=]"

// Slurm's options: which nodes, which of their resources, how Slurm handles the job, and how it is submitted. The
// latter are not part of the script.
var (
	slurmHosts = []slurmRow{
		{"nodelist w", "LIST", "use these nodes among others"},
		{"exclude", "LIST", "leave out these nodes (Slurm's -x; -x sets a variable in gorun)"},
		{"constraint C", "LIST", "use nodes with these features"},
		{"partition p", "LIST", "run in this partition, or in one of several"},
		{"clusters M", "LIST", "run on one of these clusters"},
		{"reservation", "NAME", "use reservation NAME"},
		{"switches", "N[@TIME]", "use at most N switches between the nodes"},
		{"contiguous", "", "use adjacent nodes"},
		{"spread-job", "", "use as many nodes as possible"},
		{"use-min-nodes", "", "use as few nodes as possible"},
		{"exclusive", optional, "use whole nodes; =user shares them with your other jobs"},
		{"oversubscribe s", "", "share nodes with other jobs (gorun's own: GORUN_OVERSUBSCRIBE=1)"},
	}
	slurmResources = []slurmRow{
		{"cpus-per-task c", "N", "reserve N CPUs for each task"},
		{"mincpus", "N", "use nodes with at least N CPUs"},
		{"cpus-per-gpu", "N", "reserve N CPUs for each GPU"},
		{"gpus G", "[TYPE:]N", "reserve N GPUs for the job (gorun's own: GORUN_GPUS=LIST)"},
		{"gpus-per-node", "[TYPE:]N", "reserve N GPUs on each node"},
		{"gpus-per-task", "[TYPE:]N", "reserve N GPUs for each task"},
		{"gpus-per-socket", "[TYPE:]N", "reserve N GPUs on each socket"},
		{"gpu-bind", "HOW", "bind tasks to GPUs"},
		{"gpu-freq", "FREQ", "set the clocks of GPUs"},
		{"gres", "LIST", "reserve generic resources on each node"},
		{"mem", "SIZE", "reserve SIZE of memory on each node"},
		{"mem-per-cpu", "SIZE", "reserve SIZE of memory for each CPU"},
		{"mem-per-gpu", "SIZE", "reserve SIZE of memory for each GPU"},
		{"tmp", "SIZE", "use nodes with SIZE of temporary disk space"},
		{"ntasks-per-core", "N", "run at most N tasks on a core"},
		{"ntasks-per-gpu", "N", "run N tasks for each GPU"},
		{"ntasks-per-socket", "N", "run at most N tasks on a socket"},
		{"sockets-per-node", "N", "use nodes with at least N sockets"},
		{"cores-per-socket", "N", "use nodes with at least N cores per socket"},
		{"threads-per-core", "N", "use N hardware threads of each core"},
		{"extra-node-info B", "S[:C[:T]]", "use nodes with S sockets, C cores per socket, T threads per core"},
		{"core-spec S", "N", "leave N cores to the system"},
		{"distribution", "HOW", "distribute tasks over nodes (Slurm's -m; gorun's is --module)"},
		{"hint", "TYPE", "bind tasks by compute_bound, memory_bound, multithread, nomultithread"},
		{"licenses L", "LIST", "reserve licences"},
		{"network", "TYPE", "set options of the interconnect"},
		{"time t", "TIME", "limit the job to TIME: 30 (minutes), 1:30:00, 2-12"},
		{"time-min", "TIME", "accept a shorter limit, at least TIME"},
	}
	slurmHandling = []slurmRow{
		{"job-name J", "NAME", "name the job (the program's name)"},
		{"account A", "NAME", "charge account NAME"},
		{"qos q", "NAME", "use quality of service NAME"},
		{"wckey", "KEY", "set the workload characterization key"},
		{"comment", "TEXT", "attach a comment"},
		{"array a", "LIST", "submit a job array, such as 0-15%4"},
		{"dependency d", "LIST", "begin after other jobs, such as afterok:JOB"},
		{"begin b", "TIME", "begin no earlier than TIME"},
		{"deadline", "TIME", "drop the job if it cannot end before TIME"},
		{"hold", "", "hold the job until you release it"},
		{"nice", optional, "lower the priority; =N by N"},
		{"priority", "N", "set the priority"},
		{"signal", "[B:]SIG[@S]", "send SIG S seconds before the end; B: to gorun, which passes it on"},
		{"requeue", "", "requeue the job after a preemption or a failure of a node"},
		{"no-requeue", "", "never requeue the job"},
		{"no-kill k", optional, "continue if a node fails; =off: end the job"},
		{"kill-on-invalid-dep", "yes|no", "cancel the job if its dependency can never be met"},
		{"output o", "FILE", "write output to FILE, such as %x-%j.out (slurm-%j.out)"},
		{"error e", "FILE", "write standard error to FILE (the file of --output)"},
		{"input i", "FILE", "read standard input from FILE"},
		{"open-mode", "append|truncate", "append to such files or truncate them"},
		{"mail-type", "LIST", "send mail at these events"},
		{"mail-user", "USER", "send mail to USER"},
		{"chdir D", "DIR", "run in DIR, where output is written, too (gorun's own: --wdir)"},
		{"export", "LIST", "export these variables to the job (ALL)"},
		{"get-user-env", optional, "set the variables of a login"},
		{"propagate", optional, "propagate these limits"},
		{"profile", "LIST", "record these profiles"},
		{"acctg-freq", "LIST", "sample accounting at these intervals"},
		{"bb", "SPEC", "request a burst buffer"},
		{"container", "PATH", "run in the OCI container at PATH"},
	}
	slurmSubmission = []slurmRow{
		{"parsable", "", "print only the job's number"},
		{"wait W", "", "wait for the end of the job and exit with its code"},
		{"test-only", "", "print when the job would begin, and submit nothing"},
	}
)

// slurmOptions makes Slurm options, which go into the script or, as those of the submission, to sbatch itself.
func (o *sbatchOptions) slurmOptions(g dialect.Group, rows ...slurmRow) []*option {
	options := make([]option, len(rows))
	for i, r := range rows {
		own := option{Names: r.names, Help: r.help, Optional: r.value == optional}
		name := own.Name()
		if own.Dirs = name == "chdir"; !own.Optional {
			own.Value, own.Attached = r.value, r.value != "" && name != r.names
		}
		takesValue := own.TakesValue()
		own.Set = func(a dialect.Arg) error {
			switch {
			case takesValue && a.Value == "":
				return errors.New("the value is empty")
			case takesValue, own.Optional && a.Value != "true":
				return o.request("--"+name, "="+a.Value)
			case g != dialect.GroupSubmitted && (own.Optional || a.On):
				return o.request("--"+name, "")
			case a.On:
				o.submission = append(o.submission, "--"+name)
			}
			return nil
		}
		options[i] = own
	}
	return o.group(g, options...)
}
