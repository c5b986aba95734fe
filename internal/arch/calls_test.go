package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reserved is a set of names of one imported package that only some places may use.
type reserved struct {
	imported string
	names    []string // empty: every name
	// folders and all below; "folder#Function" is a top-level function or method of that folder
	only []string
	why  string
}

var (
	// programs may do everything that a main program does. They are gorun itself, measuring programs, the guest of
	// a test, tools for hosts, clusters and GPUs, and helpers of tests.
	programs = []string{
		"cmd/gorun", "launcher#Main", "launcher/internal/agentprogram", "internal/bench", "internal/interop/guest/boot",
		"internal/testhosts/cmd", "internal/testslurm/cmd", "internal/gpucheck",
	}
	// only env decides where C libraries are
	environment = append([]string{"env", "internal/testneeds", "comm/internal/nccl#libraryEnvironment"}, programs...)
)

// reservations holds the rules about where each name may be called. Tests are exempt.
var reservations = []reserved{
	{
		"os",
		[]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
		environment,
		"the environment is read in one place, so that a Spec says everything and a library never depends on hidden input",
	},
	{"syscall", []string{"Getenv", "Environ"}, environment, "the environment is read in one place"},
	{"golang.org/x/sys/unix", []string{"Getenv", "Environ"}, environment, "the environment is read in one place"},
	{
		"os",
		[]string{"Setenv", "Unsetenv", "Clearenv"},
		[]string{"cmd/gorun#surroundings"},
		"a process-wide variable is shared with every goroutine: pass values instead; surroundings hides a secret from " +
			"whatever gorun starts",
	},
	{
		"os",
		[]string{"Exit"},
		append([]string{"examples"}, programs...),
		"only a main program decides that the process ends: a library returns an error",
	},
	{
		"log",
		[]string{"Fatal", "Fatalf", "Fatalln"},
		append([]string{"examples"}, programs...),
		"only a main program decides that the process ends: a library returns an error",
	},
	{
		"flag", nil, append([]string{"examples"}, programs...),
		"flags belong to main programs; below them an options struct is passed",
	},
	{"os/signal", nil, programs, "signals belong to the host program: a library must not take them away"},
	{
		"golang.org/x/sys/unix",
		[]string{"PR_SET_CHILD_SUBREAPER"},
		append([]string{"launcher/internal/process#Claim"}, programs...),
		"a library that becomes a subreaper steals its host's orphans: Claim is for the main program",
	},
	{
		"os/exec",
		[]string{"Command", "CommandContext"},
		append([]string{
			"launcher/internal/process/child", "launcher/internal/reach/remote/remotetest",
			"placement/nvml/worker", "comm/internal/nccl/fake", "internal",
		}, programs...),
		"a launcher that adopts its ranks' orphans takes every child for one that package child did not start",
	},
	{
		"os",
		[]string{"StartProcess"},
		nil,
		"a launcher that adopts its ranks' orphans takes every child for one that package child did not start",
	},
	{
		"syscall",
		[]string{"ForkExec", "StartProcess"},
		[]string{"launcher/internal/process", "launcher/internal/program#kernelRuns", "internal/bench"},
		"a launcher that adopts its ranks' orphans takes every child for one that package child did not start",
	},
	{
		"syscall",
		[]string{"Setrlimit"},
		nil,
		"Go gives children the user's own NOFILE limit only until somebody calls Setrlimit",
	},
	{
		"golang.org/x/sys/unix",
		[]string{"Setrlimit"},
		nil,
		"Go gives children the user's own NOFILE limit only until somebody calls Setrlimit",
	},
}

// pure lists the folders whose packages compute without side effects; their arguments carry all input.
var pure = []struct {
	folder string
	except []string // folders below it that read the machine
	why    string
}{
	{
		"launcher/job", nil,
		"the core has no goroutine, clock, file, socket or process: the same events give the same orders",
	},
	{"placement", []string{"placement/sysfs", "placement/nvml"}, "placement reads nothing but its arguments"},
	{"env/plan", nil, "a plan for the same inputs has the same bytes"},
	{"cmd/gorun/internal/dialect", nil, "a dialect is a function from argv to Spec"},
}

// impure are the imports that a pure package may not have; impureCalls are single names.
var (
	impure      = []string{"os", "os/exec", "os/signal", "net", "crypto/rand", "math/rand", "math/rand/v2"}
	impureCalls = map[string][]string{"time": {
		"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer",
		"NewTicker", "Tick",
	}}
)

// systemCall reports whether a name of package syscall or x/sys/unix has an effect. Signals are only named numbers.
func systemCall(imported, name string) bool {
	return (imported == "syscall" || imported == "golang.org/x/sys/unix") && name != "SignalName" &&
		!strings.HasPrefix(strings.ToUpper(name), "SIG")
}

// pureImports allows single imports of pure packages.
var pureImports = []exception{}

// uses calls visit for every package-qualified name in s, with its enclosing top-level function.
func (s source) uses(visit func(imported, name, function string, at ast.Node)) {
	byName := s.imports()
	s.declared(func(function string, decl ast.Decl) {
		ast.Inspect(decl, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if qualifier, ok := selector.X.(*ast.Ident); ok && byName[qualifier.Name] != "" {
				visit(byName[qualifier.Name], selector.Sel.Name, function, n)
			}
			return true
		})
	})
}

// permits reports whether the reservation lets function in folder use the name.
func (r reserved) permits(folder, function string) bool {
	return slices.ContainsFunc(r.only, func(place string) bool {
		if where, only, named := strings.Cut(place, "#"); named {
			return folder == where && function == only
		}
		return within(folder, place)
	})
}

// wrongCalls checks all non-test sources against the reservations.
func wrongCalls(all []source) []string {
	var problems []string
	for _, s := range all {
		if s.test {
			continue
		}
		s.uses(func(imported, name, function string, at ast.Node) {
			for _, r := range reservations {
				if r.imported == imported && (r.names == nil || slices.Contains(r.names, name)) && !r.permits(s.room, function) {
					problems = append(problems, fmt.Sprintf("%s uses %s.%s: %s", s.line(at), imported, name, r.why))
				}
			}
		})
	}
	return problems
}

// wrongActs checks the pure folders.
func wrongActs(all []source) []string {
	var problems []string
	for _, s := range all {
		for _, p := range pure {
			below := func(folder string) bool { return within(s.room, folder) }
			if s.test || !below(p.folder) || slices.ContainsFunc(p.except, below) {
				continue
			}
			for _, act := range s.acts() {
				problems = append(problems, act+": "+p.why)
			}
		}
	}
	return problems
}

// acts lists the impure imports and calls of s.
func (s source) acts() []string {
	var found []string
	for _, imported := range s.imports() {
		if slices.Contains(impure, imported) && !slices.ContainsFunc(pureImports, func(e exception) bool {
			return e.from == s.room && e.to == imported
		}) {
			found = append(found, s.file+" imports "+imported)
		}
	}
	s.uses(func(imported, name, _ string, at ast.Node) {
		if slices.Contains(impureCalls[imported], name) || systemCall(imported, name) {
			found = append(found, s.line(at)+" uses "+imported+"."+name)
		}
	})
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			found = append(found, s.line(n)+" starts a goroutine")
		}
		return true
	})
	return found
}

// slowStarts finds work in package initialisation that would slow every start of gorun.
func slowStarts(all []source) []string {
	var problems []string
	for _, s := range all {
		if s.test || within(s.room, "internal") || within(s.room, "examples") {
			continue
		}
		s.uses(func(imported, name, function string, at ast.Node) {
			if imported == "regexp" && strings.Contains(name, "Compile") && (function == "" || function == "init") {
				problems = append(problems, s.line(at)+" compiles a regular expression when the program starts: compile it when "+
					"it is first used (start-up time is a feature)")
			}
		})
	}
	return problems
}

// silentSkips finds tests that skip without being counted.
func silentSkips(all []source) []string {
	var problems []string
	for _, s := range all {
		if !s.test || within(s.room, "internal/testneeds") {
			continue
		}
		s.declared(func(function string, decl ast.Decl) {
			if strings.HasPrefix(function, "Fuzz") {
				return // a fuzz target skips inputs, not itself
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, selector.Sel.Name) {
					return true
				}
				if on, ok := selector.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "tb"}, on.Name) {
					problems = append(problems, s.line(n)+" skips a test where nobody counts it: use testneeds.Skip")
				}
				return true
			})
		})
	}
	return problems
}

func TestReservedNames(t *testing.T)   { report(t, wrongCalls(sources(t))) }
func TestPurePackages(t *testing.T)    { report(t, wrongActs(sources(t))) }
func TestStartUpIsCheap(t *testing.T)  { report(t, slowStarts(sources(t))) }
func TestSkipsAreCounted(t *testing.T) { report(t, silentSkips(sources(t))) }

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

func TestCallRulesCatch(t *testing.T) {
	type rule = func([]source) []string
	for name, row := range map[string]struct {
		rule     rule
		file     string
		text     string
		problems int
	}{
		"environment in a library": {wrongCalls, "launcher/run.go", `import "os"; func Run() { os.Getenv("X") }`, 1},
		"under another name":       {wrongCalls, "launcher/run.go", `import sys "os"; func Run() { sys.Environ() }`, 1},
		"paths of C libraries": {
			wrongCalls, "comm/internal/nccl/a.go", `import "os"; func libraryEnvironment() { os.Getenv("X") }`, 0,
		},
		"environment beside them": {wrongCalls, "comm/internal/nccl/a.go", `import "os"; func f() { os.Getenv("X") }`, 1},
		"environment in Self":     {wrongCalls, "env/self.go", `import "os"; func Self() { os.Getenv("X") }`, 0},
		"exit in Main":            {wrongCalls, "launcher/main.go", `import "os"; func Main() { os.Exit(1) }`, 0},
		"exit beside Main":        {wrongCalls, "launcher/main.go", `import "os"; func finish() { os.Exit(1) }`, 1},
		"Main of another package": {wrongCalls, "launcher/job/main.go", `import "os"; func Main() { os.Exit(1) }`, 1},
		"signals in a library":    {wrongCalls, "launcher/a.go", `import "os/signal"; func f() { signal.Notify(nil) }`, 1},
		"a local named like it":   {wrongCalls, "launcher/a.go", `func f() { var os struct{ Exit int }; _ = os.Exit }`, 0},
		"limits": {
			wrongCalls, "launcher/internal/process/a.go", `import "syscall"; func f() { syscall.Setrlimit(0, nil) }`, 1,
		},
		"a goroutine in the core": {wrongActs, "launcher/job/a.go", `func f() { go f() }`, 1},
		"a clock in the core":     {wrongActs, "launcher/job/a.go", `import "time"; func f() { time.Now() }`, 1},
		"a duration in the core":  {wrongActs, "launcher/job/a.go", `import "time"; const d = time.Second`, 0},
		"a signal in the core": {
			wrongActs, "launcher/job/a.go", `import "syscall"; const s, t = syscall.SIGTERM, syscall.Signal(9)`, 0,
		},
		"a kill in the core":       {wrongActs, "launcher/job/a.go", `import "syscall"; func f() { syscall.Kill(1, 9) }`, 1},
		"a file in placement":      {wrongActs, "placement/a.go", `import "os"; var _ = os.Args`, 1},
		"a file in sysfs":          {wrongActs, "placement/sysfs/a.go", `import "os"; var _ = os.Args`, 0},
		"a goroutine in its tests": {wrongActs, "launcher/job/a_test.go", `func f() { go f() }`, 0},
		"a regexp at start":        {slowStarts, "launcher/a.go", `import "regexp"; var r = regexp.MustCompile("x")`, 1},
		"a regexp in a function": {
			slowStarts, "launcher/a.go", `import "regexp"; func f() { regexp.MustCompile("x") }`, 0,
		},
		"a silent skip": {
			silentSkips, "env/a_test.go", `import "testing"; func TestX(t *testing.T) { t.Skip() }`, 1,
		},
		"a fuzz input": {
			silentSkips, "env/a_test.go",
			`import "testing"; func FuzzX(f *testing.F) { f.Fuzz(func(t *testing.T) { t.Skip() }) }`, 0,
		},
		"a counted skip": {
			silentSkips, "env/a_test.go",
			`import "gorun/internal/testneeds"; func TestX(t T) { testneeds.Skip(t, "", "") }`, 0,
		},
		"a search for package Skip": {silentSkips, "env/a_test.go", `func TestX(t T) { parser.Skip() }`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, row.rule(sample(t, row.file, "package p\n"+row.text)), row.problems)
		})
	}
}
