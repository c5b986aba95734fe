package dialect

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// BatchWish is a batch job to submit.
type BatchWish struct {
	// Asked are the options of the script, --NAME=VALUE or --NAME each, without newlines.
	Asked []string
	// Defaults are more of them that nobody typed: Slurm's SBATCH_* variables are stronger.
	Defaults []string
	// Submission are options of sbatch itself.
	Submission []string
	// Line is what follows gorun in the script: its options, the program and its arguments.
	Line []string
	// Program is the first one, as it was typed; Dir is where Slurm starts it, "" is here.
	Program, Dir string
	// Apps are all of them, and RanksDir is where they run where an option says so.
	Apps     []job.App
	RanksDir string
}

// perNode is gorun's count for each node. Beside a number of all ranks it is the most that Slurm may place on a node,
// and Slurm's own count of tasks says to gorun how many each has.
const perNode = "nproc-per-node"

// stays are the options that gorun sbatch itself obeys, beside Slurm's.
var stays = []string{"version", "help"}

// batchLine adds a program and gorun's own options before it to gorun's line in the script.
func (p *parser) batchLine(r rewritten, first bool) {
	p.checkBatchModule(r)
	line := &p.batch.Line
	if !first {
		*line = append(*line, ":")
	}
	if several := !first || r.more; several && p.app.NumRanks > 0 {
		*line = append(*line, "-n", fmt.Sprint(p.app.NumRanks))
	}
	for _, o := range r.options {
		name := o.option.Names[0]
		if isRow(sbatchTable, o.option) || slices.Contains(stays, name) || name == perNode && p.app.NumRanks > 0 {
			continue
		}
		*line = append(*line, o.words()...)
	}
	if r.ended {
		*line = append(*line, "--")
	}
	*line = append(*line, r.program...)
}

func isRow(table []Option, o *Option) bool {
	return slices.ContainsFunc(table, func(row Option) bool { return slices.Equal(row.Names, o.Names) })
}

// words are the option as it can be typed.
func (o occurrence) words() []string {
	name := Spelling(o.option.Names[0])
	switch {
	case o.option.TakesValue() && o.value != "" && o.value[0] != '-':
		return []string{name, o.value}
	case !o.option.TakesValue() && o.value == "true":
		return []string{name}
	}
	return []string{name + "=" + o.value}
}

// finishBatch makes an Invocation of the options of gorun sbatch.
func (p *parser) finishBatch() (Invocation, error) {
	p.checkPrograms()
	p.refuseRankStarters()
	p.noteSlurmVariables()
	if p.problems == nil {
		p.batchCounts()
		p.batchDefaults()
		p.checkBatchLine()
	}
	p.noteStrangers()
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Batch = &p.batch
	if p.inv.Action = Submit; p.dryRun {
		p.inv.Action = DryRun
	}
	p.inv.Spec = job.Spec{}
	return p.inv, nil
}

// batchCounts tells Slurm how many ranks there will be. -n is Slurm's tasks, which gorun finds in the allocation;
// --nproc-per-node is gorun's, and Slurm's tasks per node unless the user counts those.
func (p *parser) batchCounts() {
	total := 0
	for _, app := range p.inv.Spec.Apps {
		total += app.NumRanks
	}
	each, nodes := p.inv.Spec.PerNode, p.inv.Spec.NumNodes
	if each.Kind == job.CountFixed && total > 0 && !p.asksFor("nodes") {
		nodes = (total + each.N - 1) / each.N
		_ = p.askSlurm("--nodes", fmt.Sprintf("=%d", nodes))
	}
	if total > 0 {
		_ = p.askSlurm("--ntasks", fmt.Sprintf("=%d", total))
		p.countOnLine(total, nodes)
	}
	switch {
	case each.Kind == job.CountUnset:
	case len(p.inv.Spec.Apps) > 1:
		p.problem(fmt.Errorf("%s does not go with several programs: each has its own -n", each.From))
	case each.Kind != job.CountFixed && total > 0:
		p.problem(fmt.Errorf("%s and %s both give the number of ranks: keep one", p.ranksFrom, each.From))
	case each.Kind != job.CountFixed:
		p.noteCPUs(each)
	case total > 0 && nodes > 0 && total > each.N*nodes:
		p.problem(fmt.Errorf("%s contradicts %s with %s, which make %d", p.ranksFrom, each.From, p.nodesFrom, each.N*nodes))
	case !p.asksFor("ntasks-per-node"):
		_ = p.askSlurm("--ntasks-per-node", fmt.Sprintf("=%d", each.N))
	}
}

// countOnLine says the number of ranks on gorun's line, too: one task on each node may be meant for a launcher with a
// rank per GPU, but not where somebody has counted the ranks.
func (p *parser) countOnLine(total, nodes int) {
	switch {
	case len(p.inv.Spec.Apps) > 1: // each has its own there
	case total == nodes:
		p.batch.Line = append([]string{"--" + perNode, "1"}, p.batch.Line...)
	default:
		p.batch.Line = append([]string{"-n", fmt.Sprint(total)}, p.batch.Line...)
	}
}

// noteCPUs: Slurm cannot know how many ranks a count by GPUs or CPUs will be.
func (p *parser) noteCPUs(each job.Count) {
	if !p.asksFor("ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus", "exclusive") {
		p.note(each.From + ": Slurm does not know how many ranks that will be, and gives each node the CPUs of one task: " +
			"add --cpus-per-gpu N, -c N or --exclusive")
	}
}

// batchDefaults: sbatch calls a script from its standard input "sbatch".
func (p *parser) batchDefaults() {
	p.batch.Apps, p.batch.RanksDir = p.inv.Spec.Apps, p.inv.Spec.Dir
	p.batch.Program = p.batch.Apps[0].Program
	for _, option := range p.batch.Asked {
		if dir, ok := strings.CutPrefix(option, "--chdir="); ok {
			p.batch.Dir = dir
		}
	}
	if name := path.Base(p.batch.Program); !p.asksFor("job-name") && !strings.ContainsAny(name, "\r\n") {
		p.batch.Defaults = append(p.batch.Defaults, "--job-name="+name)
	}
}

// checkBatchLine has gorun's own dialect read its line, so that mistakes are known now and not when the job begins.
// What belongs to the host where it is submitted, and to an allocation that may be around it, does not count.
func (p *parser) checkBatchLine() {
	around := p.around
	around.Lookup = func(name string) (string, bool) {
		if !isWish(name) {
			return "", false
		}
		return p.around.Lookup(name)
	}
	around.Names = func() []string {
		return slices.DeleteFunc(p.around.Names(), func(name string) bool { return !isWish(name) })
	}
	_, err := Gorun.parse(withoutEngine(p.batch.Line), around)
	var wrong *UsageError
	switch {
	case errors.As(err, &wrong):
		for _, problem := range wrong.Problems.Errors {
			p.problem(problem)
		}
	case err != nil:
		p.problem(err)
	}
}

// isWish reports whether a variable is the default of an option, which the job inherits.
func isWish(name string) bool {
	return (strings.HasPrefix(name, "GORUN_") && !strings.HasPrefix(name, "GORUN_JOB")) ||
		strings.HasPrefix(name, "PET_") || name == "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
}

// withoutEngine leaves out --engine: there is no such job yet.
func withoutEngine(line []string) []string {
	if at := slices.Index(line, "--engine"); at >= 0 && at+1 < len(line) {
		return slices.Delete(slices.Clone(line), at, at+2)
	}
	return line
}
