package dialect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// variableName is the name of an environment variable; nodeName is one as nodes have them, and hardly a variable: n1,
// gpu04.
var (
	variableName = onDemand(`^[A-Za-z_][A-Za-z0-9_]*$`)
	nodeName     = onDemand(`^[a-z][a-z_]*[0-9]+$`)
)

// checkBatchExport tells Slurm's -x, which is followed by nodes, from gorun's, which is followed by a variable: known
// when it is submitted, not when the job begins.
func (p *parser) checkBatchExport(a arg, name string) error {
	_, set := p.around.Lookup(name)
	switch {
	case set || strings.HasSuffix(name, "*") || p.level != levelFlags:
	case !variableName().MatchString(name), nodeName().MatchString(name):
		return fmt.Errorf("-x gives ranks a variable, and none of that name is set here; to leave out nodes, as Slurm's "+
			"own -x does: --exclude %s", shellWord(name))
	default:
		p.note(a.from + ": the variable is not set here, so ranks get it only where the job has it")
	}
	return nil
}

// distribution is what Slurm's own -m takes: block, cyclic:block, plane=4.
var distribution = onDemand(
	`^(block|cyclic|arbitrary|\*|plane(=[0-9]+)?)(:(block|cyclic|fcyclic|\*)){0,2}(,(Pack|NoPack))?$`)

// checkBatchModule tells Slurm's -m, a distribution of tasks, from gorun's, a Python module.
func (p *parser) checkBatchModule(r rewritten) {
	if len(r.program) == 0 || !distribution().MatchString(r.program[0]) {
		return
	}
	if slices.ContainsFunc(r.options, func(o occurrence) bool { return o.text == "-m" }) {
		p.problem(fmt.Errorf("-m %s: -m starts a Python module; for Slurm's distribution write --distribution=%s, and "+
			"--module %[1]s for a module of that name",
			r.program[0], shellWord(r.program[0])))
	}
}

// onDemand compiles an expression when it is first used: most command lines need none.
func onDemand(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
