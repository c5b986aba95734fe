package plan

import "strings"

// Markdown returns the documentation page about the ranks' environment, generated from the table that [Build]
// uses.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# What a rank finds in its environment

<!-- Generated from env/plan by ` + "`make docs`" + `; edit the table there. -->

A rank inherits gorun's own environment. gorun adds the place of the rank in its
job and a few settings, and removes what would mislead it. ` + "`gorun env`" + ` prints
the variables of a job's ranks with their values and reasons, ` + "`--all`" + ` those for MPI and gorun itself, too.

## Set by gorun

**identity**: gorun's value wins; one that is inherited is removed, one given by -x has to be the same. Of another
value -x is refused; called mpirun or mpiexec gorun says that it does not count. **setting**: your value wins, from
the environment or with -x. **request**: your value says where the store listens; ranks get its address. Next to
GORUN_JOB or TORCHELASTIC_RUN_ID an inherited value belongs to an outer launcher and is ignored; -x and options count.

`)
	ruleTable(&b, func(r *rule) bool {
		return r.value != nil && r.Source != slurmSource && !r.MPI && r.level == ""
	}, "variable", "kind", "value", "reason", "defined by")

	tuning(&b)
	forMPI(&b)
	b.WriteString(
		"\n## Removed\n\nWhat another launcher left behind, and what is meant for gorun itself (kind **launcher**).\n" +
			"Everything else is passed on, byte for byte.\n\n")
	ruleTable(&b, func(r *rule) bool {
		return r.value == nil && r.Class != ClassSetting && r.Source != slurmSource
	}, "variable", "kind", "reason", "defined by")

	b.WriteString("\nPassed on although their names begin like those:\n\n")
	ruleTable(&b, func(r *rule) bool { return r.value == nil && r.Class == ClassSetting },
		"variable", "meaning", "defined by")

	insideSlurm(&b)
	b.WriteString(otherHosts)
	forwardTable(&b, "sent to other hosts", forwarded)
	b.WriteString("\nFrom their own host ranks have:\n\n")
	forwardTable(&b, "variable", ownOfHost)
	b.WriteString("\nNever sent, with `--export-all` neither, unless -x names it:\n\n")
	forwardTable(&b, "variable", bound)
	b.WriteString(inEngines)
	forwardTable(&b, "variable", ofEngine)

	b.WriteString("\n## Differences from torchrun\n\n" +
		"What differs from the environment of a worker of torchrun 2.15, and why. A test compares the two.\n\n")
	rows := make([][]string, 0, len(differences))
	for _, d := range differences {
		rows = append(rows, []string{d.Name, d.Torchrun, d.Gorun, d.Reason})
	}
	table(&b, []string{"variable", "torchrun", "gorun", "why"}, rows)
	return uniqueAnchors(b.String())
}

// uniqueAnchors keeps the first anchor of a variable that several tables have.
func uniqueAnchors(page string) string {
	for i := range rules {
		before, after, _ := strings.Cut(page, anchor(rules[i].Name))
		if after != "" {
			page = before + anchor(rules[i].Name) + strings.ReplaceAll(after, anchor(rules[i].Name), "")
		}
	}
	return page
}

func anchor(name string) string { return `<a id="` + name + `"></a>` }

const otherHosts = `
## On other hosts

Ranks on the host that gorun was started on inherit all of its environment. Ranks on hosts that gorun reaches by
itself inherit from it what this table lists, but nothing that looks like a secret by its name or value
(` + "`NCCL_…_KEY`, `http://user:password@…`" + `); ` + "`-x NAME`" + ` sends any variable,
` + "`-x 'PREFIX*'`" + ` all that begin so, and ` + "`--export-all`" + ` all but what belongs to one host. What -x
gives counts before what is inherited. ` + "`gorun --dry-run --json`" + ` names what is not sent. Called mpiexec
gorun sends what this table does not list, too, as Hydra does; but what belongs to one host stays, and what looks like
a secret needs -x or ` + "`-genvall`" + `. ` + "`-genvnone`, `-genvlist`" + ` and their like,
` + "`GORUN_EXPORT_ALL=0` and `HYDRA_ENV=none`" + ` end that. Where each host has its own gorun command line
(` + "`--nnodes 2 --node-rank 1 …`" + `), its ranks inherit that one's environment, whole.

`

const inEngines = `
Where gorun has a resource manager such as Slurm start its agents by one command, ranks on all nodes inherit gorun's
whole environment, as that manager's own command has it, the manager's variables too; what the second and third table
list, but for that last row, stays with its host. From the agent on their own node they have what the second table
lists, and what the manager says of this node alone:

`

// tuning writes the NCCL settings that depend on --tune.
func tuning(b *strings.Builder) {
	b.WriteString(`
## For NCCL, RCCL and Gloo

NCCL chooses well by itself. gorun adds what it cannot know, or what it needs to say why it failed; never an algorithm
or a protocol. All of these are **settings**: your value wins, and so does what ` + "`nccl.conf`" + ` says on a host
(NCCL_CONF_FILE, ~/.nccl.conf, /etc/nccl.conf; rccl.conf on hosts with AMD's GPUs): what gorun would add beside it is
left out, on all hosts where all need the same value. **needed**: without it jobs fail or hang there. **helps**:
without it they are slower, or say less. ` + "`--tune off`" + ` adds none of them. Settings that must be the same on
all ranks (NCCL does not check it) are compared before a job starts, with what those files say where hosts have GPUs;
a difference is reported, unless one host only sets the default explicitly.

`)
	ruleTable(b, func(r *rule) bool { return r.level != "" && r.level != ForStudy },
		"variable", "level", "value", "reason")
	b.WriteString("\nLeft alone, whatever guides say:\n\n")
	var left [][]string
	for _, l := range folklore {
		left = append(left, []string{code(l.Name), l.Reason})
	}
	table(b, []string{"variable", "reason"}, left)
	b.WriteString(`
` + "`--tune textbook`" + ` adds what five teaching texts recommend instead, by ` + "`--model-size`" + `, the number
of ranks and ` + "`--network`" + `, for study: to see what NCCL's own choice is worth.

`)
	ruleTable(b, func(r *rule) bool { return r.level == ForStudy },
		"variable", "value", "what it is for, and what is wrong with it")
}

// forMPI writes the MPI variables of ranks.
func forMPI(b *strings.Builder) {
	b.WriteString(`
## For MPI programs

Every rank gets all protocols that MPI libraries use to find their peers. ` + "`--mpi=pmi1`, `pmi2` or `pmix`" + `
serves one of them and refuses the others; ` + "`--mpi=none`" + `, and torchrun's name, offers none. Ranks,
sizes and local ranks of this table count in the rank's MPI_COMM_WORLD. That has all ranks of the job, but with
` + "`--world=app`" + ` those of one program, and what MPI_Comm_spawn starts has one of its own: RANK, WORLD_SIZE and
LOCAL_RANK of the first table stay those of the whole job with ` + "`--world=app`" + `. The user's own settings of MPI
libraries (OMPI_MCA_…, MPIR_CVAR_…, I_MPI_…, PMIX_MCA_…) are passed on.

`)
	ruleTable(b, func(r *rule) bool { return r.MPI }, "variable", "kind", "value", "reason", "defined by")
}

// insideSlurm writes the Slurm variables of ranks.
func insideSlurm(b *strings.Builder) {
	b.WriteString(`
## Inside Slurm

Where gorun runs inside Slurm and all nodes of its own job do, ranks find what srun would say of them, had it
started them as the tasks of a step (identities: -x cannot set them). Outside these variables are removed. All others
of Slurm's are passed on, SLURM_JOB_ID and SLURM_CONF among them: srun, sbatch, scontrol and other launchers work
inside a rank.

`)
	ruleTable(b, func(r *rule) bool { return r.value != nil && r.Source == slurmSource }, "variable", "value", "reason")
	b.WriteString("\nRemoved:\n\n")
	ruleTable(b, func(r *rule) bool { return r.value == nil && r.Source == slurmSource }, "variable", "kind", "reason")
}

// forwardTable writes a table of the variables that ranks on other hosts inherit.
func forwardTable(b *strings.Builder, head string, list []ForwardRule) {
	rows := make([][]string, len(list))
	for i, p := range list {
		names := make([]string, len(p.Names))
		for k, name := range p.Names {
			names[k] = code(name)
		}
		rows[i] = []string{strings.Join(names, " "), p.Reason}
	}
	table(b, []string{head, "reason"}, rows)
}

// ruleTable writes a table of the selected rules. head has the column titles.
func ruleTable(b *strings.Builder, wanted func(*rule) bool, head ...string) {
	var rows [][]string
	for i := range rules {
		r := &rules[i]
		if !wanted(r) {
			continue
		}
		cells := map[string]string{
			"variable": anchor(r.Name) + code(r.Name),
			"kind":     string(r.Class), "level": string(r.level), "value": r.Value,
			"defined by": r.Source,
		}
		row := make([]string, len(head))
		for k, column := range head {
			cell, known := cells[column]
			if !known { // regardless of the column's title
				cell = r.Reason
			}
			row[k] = cell
		}
		rows = append(rows, row)
	}
	table(b, head, rows)
}

func code(text string) string { return "`" + text + "`" }

// table writes a table. Cells must not contain vertical bars or line breaks.
func table(b *strings.Builder, head []string, rows [][]string) {
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(head)
	b.WriteString(strings.Repeat("| --- ", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
}
