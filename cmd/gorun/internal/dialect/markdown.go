package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Markdown returns docs/reference/options.md: every option in every spelling, with its
// variables and what becomes of it in each dialect, those of commands last.
func Markdown(commands []*cli.Command) string {
	var b strings.Builder
	b.WriteString(markdownHead)
	for g := range numGroups {
		optionTable(&b, g, commands)
	}
	b.WriteString("\n## Exit codes\n\n| code | when |\n| --- | --- |\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "| %s | %s |\n", e[0], cell(e[1]))
	}
	return b.String()
}

const markdownHead = `# Options

<!-- Written by "make docs" from the tables in cmd/gorun/internal/dialect; a test keeps both equal. -->

    gorun [options] PROGRAM [ARGS...]

Options end at the program: nothing after it is read as gorun's. A lone ` + "`--`" + ` ends them too. Names of one
letter take one dash, longer ones two. In gorun's own dialect one dash is enough for all (` + "`-wdir`, `-np`" + `),
and everywhere underscores may stand for the dashes between words (` + "`--nproc_per_node`" + `). A value follows as
the next word or behind ` + "`=`" + `; numbers may be glued to ` + "`-n`, `-np`, `-c`, `-N`, `-ppn`, `-r`, `-t`" + `
(` + "`-n4`" + `) and, for gorun bench, ` + "`-b`, `-e`, `-f`, `-i`, `-g`, `-w`" + `. A time is a number of seconds or
a Go duration: ` + "`90`, `1.5`, `30m`" + `.

**Variables.** Each option has the variables in its row as default. An option beats ` + "`GORUN_*`" + `, which beats
` + "`PET_*`" + `, torchrun's own. A variable that is empty counts as not set; that of an option without a value is a
number (0 is off) or true, false. A variable GORUN_… that no option has gets a remark. GORUN_PYTHON names the Python
interpreter for scripts and modules; without it that of the active virtual environment is taken, else python3.

**Names.** Called ` + "`torchrun`" + ` (by a symbolic link) gorun has torchrun's conventions: programs are Python's
unless ` + "`--no-python`" + `, one rank per node unless told otherwise, 30 s of grace, unambiguous prefixes of
options, ` + "`${local_rank}`" + ` replaced in arguments, PYTHON_EXEC names the interpreter (GORUN_PYTHON is
stronger), TORCH_ELASTIC_SHUTDOWN_TIMEOUT the grace, and none of mpirun's options. ` + "`gorun launch`" + `, or the
name ` + "`torch.distributed.launch`" + `, is that with ` + "`--local-rank=N`" + ` before the script's arguments
unless ` + "`--use-env`" + `. Called
` + "`mpirun`, `orterun`, `mpiexec`, `mpiexec.hydra` or another name in [mpirun.md](mpirun.md)" + ` it has the
conventions of those, and rank 0 hosts the store.

**Hosts.** ` + "`-H`" + ` takes names or addresses with commas between them, each with the ranks that the host is
meant to take behind a colon: ` + "`node1:4`" + `. ` + "`node[01-16,20]:8`" + ` is a range, padded as its first number
is; several brackets are each with each. Before the name may stand a user, between name and slots a port:
` + "`user@node2:2222:4`" + `. One number alone is the slots, as every mpirun reads it. IPv6 addresses stand in
brackets before numbers: ` + "`[fe80::1%eth0]:4`" + `. A name that comes again adds its slots. ` + "`--hostfile`" + `
has such a name or range on each line, with the keys of Open MPI (` + "`slots=` `max-slots=` `user=` `port=`" + `,
which DeepSpeed's files are a part of) or of MPICH (` + "`node1:4 ifhn=ADDR`" + `: how other nodes reach it) behind
it; ` + "`-v`" + ` says whose file it was read as. With both, ` + "`-H`" + ` chooses from the file. All names of this
host are one, and nobody logs in there.

**Resource managers.** In a job of one (` + "`salloc`, `sbatch`" + `) hosts and slots are the job's, and it starts
gorun's agents there; ` + "`--nnodes`" + ` and ` + "`--exclude`" + ` choose among them, and so does ` + "`-H`" + `
where it names no others. In a step of several tasks (` + "`srun -N2 -n2 --ntasks-per-node=1 gorun ...`" + `) each
gorun is one node, and finds the others without an option; with several tasks on a node
(` + "`srun -n8 gorun ./prog`" + `) each is one rank. Called torchrun it does so with ` + "`--nnodes`" + ` above 1
alone. ` + "`--engine none`" + ` looks for none, and ` + "`--standalone`" + ` takes this host alone; ` + "`-v`" + `
says what was found, and why.

**Nodes that join.** With ` + "`--nnodes N`" + `, and no hosts, gorun is one of N nodes that somebody starts, as
torchrun is: ` + "`--master-addr`" + ` and ` + "`--master-port`" + `, or ` + "`--rdzv-endpoint`" + `, say where they
meet (else MASTER_ADDR and MASTER_PORT, if no outer launcher set them), ` + "`--node-rank`" + ` which node this is.
Without it, which torchrun's static rendezvous takes for node 0 everywhere, JOB_COMPLETION_INDEX of a Kubernetes Job
says it, or node 0 is who owns the address. A token, from ` + "`--token-file`" + `, GORUN_TOKEN or the file of
` + "`gorun token --save`" + `, has nodes trust each other; its file belongs to you, and nobody else can read it, or
to root. Without one ` + "`--insecure-join`" + ` is needed, unless the nodes meet at localhost, MUNGE vouches for
them, or gorun is called torchrun ([joining](../internals/joining.md#secrets)).

**Several programs.** ` + "`gorun -n 1 ./server : -n 3 ./client`" + ` starts one job, whose ranks number through the
programs. Each needs its ` + "`-n`" + `; ` + "`--chdir`, `--module`, `--no-python`" + ` count for the program that
follows; ` + "`-x`, `-H`" + ` and what says who sits where do so before a later program, and before the first one
count for all that have none of their own; all others count for the job, before the first program. A lone
` + "`:`" + ` begins another program if options of gorun follow it, ` + "`-n`" + ` among them in any order; if such
options follow without ` + "`-n`" + `, gorun refuses the line; before any other word (` + "`: echo`" + `) it is an
argument. Called ` + "`mpirun` or `mpiexec`" + ` every lone ` + "`:`" + ` begins another program. With ` + "`--`" + `
before the first program each is an argument: ` + "`gorun -n 2 -- ./app : -n 1`" + `.

The column *in* says who knows the option: g gorun, also when called mpirun or mpiexec, t also when called torchrun, r
when called mpirun, x when called mpiexec, l gorun launch alone, s gorun store alone, m gorun topo alone, d gorun
doctor alone, v gorun env alone, which takes gorun's own options, too, b gorun bench alone, e gorun explain alone, q
gorun sbatch alone, j gorun ps, top, stop, stacks or logs. gorun bench takes what gorun knows, too, but for
` + "`--module`, `--no-python` and `--print-completion`" + `; where both have a name it means the row with b. gorun
sbatch takes what gorun knows and writes it onto gorun's line of the script, but for
` + "`--json`, `--print-completion`" + ` and what names hosts; where both have a name it means the row with q.
`

// optionTable writes the options of one group, each once.
func optionTable(b *strings.Builder, g Group, commands []*cli.Command) {
	fmt.Fprintf(b, "\n## %s\n\n| option | in | variables | meaning |\n| --- | --- | --- | --- |\n", g)
	seen := map[string]bool{}
	row := func(o *Option, in string) {
		text := fmt.Sprintf("| %s | %s | %s | %s |\n", spellings(o), in, code(o.Variables()), cell(o.Help))
		if o.Group == g && !seen[text] {
			b.WriteString(text)
			seen[text] = true
		}
	}
	all := &Line{tables: slices.Concat(Gorun.tables, []table{perNodeTable, mpirunTable, mpiexecTable, launchTable})}
	for o := range all.options {
		row(o, knownBy(o))
	}
	for _, c := range commands {
		for _, f := range c.Flags {
			f := f.(*Flag)
			of := Gorun.exact(Spelling(f.Option.Names[0]))
			if shared := f.Hidden || of != nil && of.Help == f.Help; !shared && letters[c.Name] != "" {
				row(f.Option, letters[c.Name])
			}
		}
	}
}

// letters are what the column says for gorun's own commands.
var letters = map[string]string{
	"store": "s", "topo": "m", "doctor": "d", "env": "v", "bench": "b", "explain": "e", "sbatch": "q",
	"ps": "j", "top": "j", "stop": "j", "stacks": "j", "logs": "j",
}

// spellings lists the names of an option, the value behind the last.
func spellings(o *Option) string {
	names := make([]string, len(o.Names))
	for i, n := range o.Names {
		names[i] = Spelling(n)
	}
	if o.TakesValue() {
		names[len(names)-1] += " " + o.Value
	}
	return code(names)
}

// knownBy says which dialects have an option.
func knownBy(o *Option) string {
	in := func(d *Dialect) bool {
		row := d.exact(Spelling(o.Names[0]))
		return row != nil && row.Help == o.Help
	}
	switch {
	case in(Torchrun):
		return "g t"
	case in(Gorun):
		return "g"
	case in(Mpirun) && in(Mpiexec):
		return "r x"
	case in(Mpirun):
		return "r"
	case in(Mpiexec):
		return "x"
	}
	return "l"
}

// code sets words in type, separated by blanks.
func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + cell(strings.Join(words, "` `")) + "`"
}

// cell makes text fit for a cell of a table.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) }
