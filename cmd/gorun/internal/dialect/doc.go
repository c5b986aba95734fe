// Package dialect turns a command line into a wish ([job.Spec]), in whichever
// dialect it was typed: gorun's own, torchrun's, or that of
// torch.distributed.launch. The name of the program (argv[0]) chooses.
//
// What gorun does in place of a job is a command of urfave/cli; a [Line] reads its words
// by the same steps, with options of its own and those for jobs that it shares ([JobOptions]).
//
// Each dialect is one table of options ([Dialect], [Option]). The parser, the
// help, the shell completion, docs/reference/options.md and the tests all read that table,
// so a new spelling is one row. Tables are functions of the [Line] that their options
// fill: a row says where its value goes, as [Switch] and [Parsed] do, or which method
// takes it. They are made when they are looked at, as a start pays for each;
// docs/design/013-dialects.md says why.
//
// A command line passes three steps, all of them pure:
//
//	argv ─ rewrite ─→ one form       --name=value ... -- PROGRAM ARGS
//	     ─ urfave/cli ─→ setters     one flag per option that occurs, each fills the Spec
//	     ─ defaults, checks ─→ Spec  GORUN_* and PET_* variables, contradictions
//
// The first step exists because users of mpirun and torchrun type what no flag
// library reads: -n4, -wdir, --nproc_per_node, --mca KEY VALUE, unambiguous
// prefixes, a `:` between programs. Nothing stops at the first mistake: all
// problems of one command line come back together, as a [UsageError].
//
// Nothing here reads the machine: what a dialect has to know of it comes in
// through [Surroundings].
package dialect
