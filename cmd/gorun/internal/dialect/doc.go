// Package dialect turns a command line into a [job.Spec], in any dialect: gorun's own, mpirun's, mpiexec's, torchrun's,
// or that of torch.distributed.launch. The name of the program (argv[0]) selects the dialect.
//
// A gorun command other than a job is a command of urfave/cli. Its [Line] is read by the same steps, with the command's
// own options and those that it shares with jobs ([Line.JobOptions]).
//
// Each dialect is one table of options ([Dialect], [Option]). The parser, the help, the shell completion,
// docs/reference/options.md and the tests all read that table, so a new spelling is one row. Tables are functions of
// the [Line] that their options fill: a row says where its value goes ([Switch], [Parsed]), or which method sets it.
// They are made on first use, because a start pays for each; docs/design/013-dialects.md says why.
//
// A command line passes three steps, all of them pure:
//
//	argv ─ rewrite ─→ one form       --name=value ... -- PROGRAM ARGS
//	     ─ urfave/cli ─→ setters     one flag for each option that occurs; it sets its part of the Spec
//	     ─ defaults, checks ─→ Spec  GORUN_* and PET_* variables, contradictions
//
// The first step exists because users of mpirun and torchrun type what no flag library reads: -n4, -wdir,
// --nproc_per_node, --mca KEY VALUE, unambiguous prefixes, a `:` between programs. Reading does not stop at the first
// mistake: all problems of a command line come back together, as a [UsageError].
//
// The package does not read the machine. What a dialect has to know comes through [Surroundings].
package dialect
