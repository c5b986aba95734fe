package plan

import "strings"

// Markdown returns the documentation page about the ranks' environment, generated from the table that [Build]
// uses.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# The environment of a rank

<!-- Generated from env/plan by ` + "`make docs`" + `; edit the table there. -->

A rank inherits gorun's own environment. gorun adds the number of the rank, the size of the job and a few settings,
and removes variables that would mislead the rank. ` + "`gorun env`" + ` prints the variables of ranks with values and
reasons; ` + "`--all`" + ` adds those for MPI and for gorun itself.

## Set by gorun

- **identity**: gorun's value wins over an inherited one. ` + "`-x`" + ` with another value is an error, and under the
  names mpirun and mpiexec a warning.
- **setting**: your value wins, from the environment or from ` + "`-x`" + `.
- **request**: your value sets the address of the store, and ranks get that address. If GORUN_JOB or
  TORCHELASTIC_RUN_ID is set, an inherited value belongs to an outer launcher, so gorun uses only ` + "`-x`" + ` and
  options.

`)
	ruleTable(&b, func(r *rule) bool {
		return r.value != nil && r.Source != slurmSource && !r.MPI && r.level == ""
	}, "variable", "kind", "value", "reason", "defined by")

	tuning(&b)
	forMPI(&b)
	b.WriteString(
		"\n## Removed\n\ngorun removes the variables of other launchers and of gorun itself (kind **launcher**).\n" +
			"It passes on everything else unchanged.\n\n")
	ruleTable(&b, func(r *rule) bool {
		return r.value == nil && r.Class != ClassSetting && r.Source != slurmSource
	}, "variable", "kind", "reason", "defined by")

	b.WriteString("\nPassed on, although their names match a pattern above:\n\n")
	ruleTable(&b, func(r *rule) bool { return r.value == nil && r.Class == ClassSetting },
		"variable", "meaning", "defined by")

	insideSlurm(&b)
	b.WriteString(otherHosts)
	forwardTable(&b, "sent to other hosts", forwarded)
	b.WriteString("\nRanks take these from their own host:\n\n")
	forwardTable(&b, "variable", ownOfHost)
	b.WriteString("\nNever sent, even with `--export-all`, unless `-x` names them:\n\n")
	forwardTable(&b, "variable", bound)
	b.WriteString(inEngines)
	forwardTable(&b, "variable", ofEngine)

	b.WriteString("\n## Differences from torchrun\n\n" +
		"Differences from the environment of a torchrun 2.15 worker. A test compares the two.\n\n")
	rows := make([][]string, 0, len(differences))
	for _, d := range differences {
		rows = append(rows, []string{d.Name, d.Torchrun, d.Gorun, d.Reason})
	}
	table(&b, []string{"variable", "torchrun", "gorun", "why"}, rows)
	return uniqueAnchors(b.String())
}

// uniqueAnchors keeps the first anchor of a variable that several tables have.
func uniqueAnchors(page string) string {
	for _, r := range rules() {
		before, after, _ := strings.Cut(page, anchor(r.Name))
		if after != "" {
			page = before + anchor(r.Name) + strings.ReplaceAll(after, anchor(r.Name), "")
		}
	}
	return page
}

func anchor(name string) string { return `<a id="` + name + `"></a>` }

const otherHosts = `
## On other hosts

Ranks on gorun's own host inherit its whole environment. Ranks on hosts that gorun connects to inherit the variables
of this table, except those that look like secrets by name or value
(` + "`NCCL_…_KEY`, `http://user:password@…`" + `). ` + "`gorun --dry-run --json`" + ` lists the rest.

- ` + "`-x NAME`" + ` sends any variable, and ` + "`-x 'PREFIX*'`" + ` all whose names begin with PREFIX. Values from
  ` + "`-x`" + ` win over inherited ones.
- ` + "`--export-all`" + ` sends everything except what belongs to one host.
- Under the name mpiexec, gorun sends other variables too, as Hydra does, but not what belongs to one host. Secrets
  need ` + "`-x` or `-genvall`. `-genvnone`, `-genvlist`" + ` and similar options, ` + "`GORUN_EXPORT_ALL=0`" + ` and
  ` + "`HYDRA_ENV=none`" + ` turn that off.
- If each host runs its own gorun command line (` + "`--nnodes 2 --node-rank 1 …`" + `), its ranks inherit all of
  that one's environment.

`

const inEngines = `
If a resource manager such as Slurm starts gorun's agents, ranks on all nodes inherit gorun's whole environment and
the manager's variables. Variables of the second and third table, except the last row, stay with their host; ranks
take those of the second table, and these, from their own node:

`

// tuning writes the NCCL settings that depend on --tune.
func tuning(b *strings.Builder) {
	b.WriteString(`
## For NCCL, RCCL and Gloo

NCCL chooses well by itself. gorun adds what NCCL cannot know, or needs to report a failure; never an algorithm or a
protocol. ` + "`--tune off`" + ` adds nothing.

- All are **settings**: your value wins, and so does a value in ` + "`nccl.conf`" + ` (NCCL_CONF_FILE, ~/.nccl.conf,
  /etc/nccl.conf; rccl.conf on hosts with AMD GPUs). gorun then leaves the setting out, on all hosts if all need the
  same value.
- **needed**: without it jobs fail or hang. **helps**: without it they are slower or report less.
- gorun compares settings that must be equal on all ranks before a job starts, with those of configuration files on
  hosts with GPUs, because NCCL does not. It reports a difference, unless one host only sets the default explicitly.

`)
	ruleTable(b, func(r *rule) bool { return r.level != "" && r.level != ForStudy },
		"variable", "level", "value", "reason")
	b.WriteString("\ngorun leaves these alone, although guides recommend them:\n\n")
	var left [][]string
	for _, l := range folklore {
		left = append(left, []string{code(l.Name), l.Reason})
	}
	table(b, []string{"variable", "reason"}, left)
	b.WriteString(`
` + "`--tune textbook`" + ` adds what five teaching texts recommend instead, so that you can compare it with NCCL's own
choice. It depends on ` + "`--model-size`" + `, the number of ranks and ` + "`--network`" + `.

`)
	ruleTable(b, func(r *rule) bool { return r.level == ForStudy },
		"variable", "value", "recommended because; flaw")
}

// forMPI writes the MPI variables of ranks.
func forMPI(b *strings.Builder) {
	b.WriteString(`
## For MPI programs

Every rank can use all protocols with which MPI libraries find their peers. ` + "`--mpi=pmi1`, `pmi2` or `pmix`" + `
serves only one of them; ` + "`--mpi=none`" + `, the default under the name torchrun, serves none.

Ranks, sizes and local ranks of this table count in the rank's MPI_COMM_WORLD. It has all ranks of the job, or, with
` + "`--world=app`" + `, those of one program; RANK, WORLD_SIZE and LOCAL_RANK still count in the whole job. Ranks of
MPI_Comm_spawn have their own MPI_COMM_WORLD. gorun passes on your own settings of MPI libraries (OMPI_MCA_…,
MPIR_CVAR_…, I_MPI_…, PMIX_MCA_…).

`)
	ruleTable(b, func(r *rule) bool { return r.MPI }, "variable", "kind", "value", "reason", "defined by")
}

// insideSlurm writes the Slurm variables of ranks.
func insideSlurm(b *strings.Builder) {
	b.WriteString(`
## Inside Slurm

If gorun and all nodes of its job are inside a Slurm job, ranks get the values that srun would set for the tasks of
a step. They are identities, so ` + "`-x`" + ` cannot set them. Elsewhere gorun removes these variables. It passes on
all other variables of Slurm, such as SLURM_JOB_ID and SLURM_CONF, so srun, sbatch, scontrol and other launchers work
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
	for _, r := range rules() {
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
