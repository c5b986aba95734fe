package dialect

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/internal/testneeds"
)

// dialects are the dialects that start jobs.
var dialects = []*Dialect{Gorun, Mpirun, Mpiexec, Torchrun, Launch}

func TestRowsAreComplete(t *testing.T) {
	for _, d := range dialects {
		seen := map[string]bool{}
		for o := range d.Options {
			name := d.Name + ": " + o.Name()
			require.NotEmpty(t, o.Help, name)
			require.NotRegexp(t, `\.$|^[A-Z][a-z]|\n|  `, o.Help, "%s: a help is one phrase without a full stop", name)
			require.Equal(t, o.Set == nil, o.Refused(), name)
			require.NotEmpty(t, o.Group.String(), name)
			if o.Group < GroupAccepted {
				require.LessOrEqual(t, len(o.Help), 70, name)
			}
			for _, n := range o.AllNames() {
				require.False(t, seen[n], "%s: %s names two options", d.Name, n)
				require.Regexp(t, `^[A-Za-z][a-z0-9]*(-[a-z0-9]+)*$`, n)
				seen[n] = true
			}
			if !o.TakesValue() {
				require.Empty(t, o.Choices, name)
				require.Zero(t, o.words, name)
				require.False(t, o.Attached || o.Dirs, name)
			}
			if o.Refused() {
				require.Empty(t, o.Variables(), name)
			}
		}
	}
}

// The variables of a family's options must not depend on the order of rows.
func TestEveryNameMeansOneThing(t *testing.T) {
	byName := map[string]*Option{}
	for _, d := range dialects {
		for o := range d.Options {
			if other, ok := byName[o.Name()]; ok {
				if slices.Contains([]string{"N", "s", "debug", "tune"}, o.Name()) {
					continue // see testdata/lines/mpi.txt
				}
				row, same := *o, *other
				row.Set, same.Set = nil, nil
				require.Equal(t, same, row, "%s is another option elsewhere", o.Name())
			}
			byName[o.Name()] = o
		}
	}
}

// A gorun that a rank starts must not read the rank's own variables as options. GORUN_PYTHON is not the default of
// an option.
func TestNoRankGetsAnOptionsVariable(t *testing.T) {
	forRanks := map[string]bool{}
	for _, row := range plan.Table() {
		if row.Class != plan.ClassLauncher {
			forRanks[row.Name] = true
		}
	}
	require.NotEmpty(t, forRanks)
	require.True(t, forRanks["GORUN_JOB"])
	for _, d := range dialects {
		for o := range d.Options {
			for _, v := range o.Variables() {
				require.False(t, forRanks[v], "%s gives %s its default, and ranks get it", v, o.Name())
			}
		}
	}
}

// sample has one valid value per option that takes one and is not refused.
var sample = map[string]string{
	"np": "3", "nproc-per-node": "3", "nnodes": "1", "node-rank": "0", "host": "localhost:3", "hostfile": "here.txt",
	"x":     "A=1",
	"chdir": "/d", "role": "r", "store": "gorun", "rdzv-backend": "c10d", "rdzv-endpoint": "a:1", "rdzv-id": "j",
	"rdzv-conf":   "timeout=5",
	"master-addr": "a", "master-port": "7", "local-addr": "a", "stdin": "all", "label": "always", "log-dir": "/l",
	"log-layout": "torchrun",
	"redirects":  "1", "tee": "2",
	"log-line-prefix-template": "t", "local-ranks-filter": "0", "duplicate-stdout-filters": "a",
	"duplicate-stderr-filters": "a",
	"allow-from":               "10.0.0.0/8", "timeout": "5", "grace": "5", "shutdown-timeout": "5", "report": "r",
	"max-restarts": "2", "on-failure": "continue", "min-success": "2", "early-exit": "warn",
	"restart-delay": "5", "hang-timeout": "5", "on-hang": "report", "cgroup": "off", "env-check": "off",
	"min-nodes": "1", "spares": "1", "max-node-losses": "2", "chaos": "kill-rank@5s", "chaos-seed": "7",
	"warm-imports": "torch",
	"bind-mem":     "bind", "restart-window": "5", "store-report": "5", "signals-to-handle": "SIGUSR1",
	"preempt-signal": "USR1",
	"exclude":        "here", "ssh-config": "f", "ssh": "ssh", "ssh-at-once": "3", "ssh-timeout": "5", "agent": "/a",
	"copy": "c", "token-file": "token", "heartbeat": "5", "logs-to": "head", "engine": "none",
	"print-completion": "bash", "monitor-interval": "1", "start-method": "fork", "event-log-handler": "null",
	"logs-specs": "default", "bind-to": "none", "map-by": "slot",
	"mca": "pml=ob1", "prtemca": "K=V", "pmixmca": "K=V", "am": "tune.conf", "tune": "off", "model-size": "7GB",
	"network": "ib", "set-env": "A=1", "unset-env": "A", "append-env": "A[:]=1", "prepend-env": "A[:]=1",
	"default-hostfile": "here.txt", "ppr": "2:node", "launch-agent": "/a", "preload-files": "a,b",
	"stream-buffering": "1", "genv": "A=1", "env": "A=1",
	"genvlist": "A", "envlist": "A", "genvexcl": "A", "envexcl": "A", "machine": "localhost:3", "binding": "none",
	"membind": "bind", "gpus-per-proc": "2", "usize": "5",
	"iface": "eth0", "launcher": "rsh", "launcher-exec": "ssh", "rmk": "user", "gwdir": "/d", "f": "here.txt",
	"s": "all", "cpus-per-proc": "2", "npersocket": "2", "ppn": "2", "N": "2",
	"rank-by": "slot", "numa-binding": "node", "cpus-per-rank": "2", "gpus-per-rank": "2", "gpus": "2",
	"rankfile": "ranks.txt", "mpi": "pmix", "world": "app",
	"prepend-pattern": "%r ", "output": "tag", "output-filename": "d", "outfile-pattern": "o.%r",
	"errfile-pattern": "e.%r", "display": "map", "metrics-listen": ":1",
}

// satisfied are options, besides GroupAccepted, whose sample value has no effect on one host.
var satisfied = []string{"node-rank", "rdzv-backend", "rdzv-conf", "engine"}

// unhosted are options without effect outside a resource manager's job.
var unhosted = []string{"rmk"}

// needsOther maps options to the requirement in their error, for a job on this host.
var needsOther = map[string]string{
	"json": "--dry-run", "no-python": "--use-env", "exclude": "add -H or --hostfile",
	"min-nodes": "add -H or --hostfile", "spares": "add -H or --hostfile",
	"nolocal": "add -H or --hostfile", "app": "names the programs", "configfile": "names the programs",
}

// TestNoOptionIsSilentlyIgnored: in each spelling an option changes the invocation, fails with a reason, or is in a
// list of options without effect.
func TestNoOptionIsSilentlyIgnored(t *testing.T) {
	for _, d := range dialects {
		ignored := append(slices.Clone(satisfied), unhosted...)
		ignored = append(ignored, "log-layout") // without files
		if d == Mpirun || d == Mpiexec {
			ignored = append(ignored, "oversubscribe") // as by default
		}
		if d.python {
			ignored = append(ignored, "run-path")
		}
		words := strings.Fields(map[string]string{"gorun launch": "torch.distributed.launch"}[d.Name])
		if len(words) == 0 {
			words = []string{d.Name}
		}
		plain, err := Parse(words[0], []string{"prog"}, around())
		require.NoError(t, err)
		for o := range d.Options {
			for _, line := range eachSpelling(d, o) {
				got, err := Parse(words[0], append(line, "prog"), around())
				if o.Refused() {
					require.ErrorContains(t, err, line[0], "%s %q", d.Name, line)
					require.ErrorContains(t, err, d.ownName(o.refusal(valueIn(line))))
					continue
				}
				if needs := needsOther[o.Name()]; needs != "" && err != nil {
					require.ErrorContains(t, err, needs)
					continue
				}
				require.NoError(t, err, "%s %q", d.Name, line)
				got.typed = plain.typed
				idle := o.Group == GroupAccepted || slices.Contains(ignored, o.Name())
				require.Equal(t, idle, reflect.DeepEqual(plain, got), "%s %q: ignored, or not idle", d.Name, line)
			}
		}
	}
}

// valueIn is the value of the option in a line of eachSpelling.
func valueIn(line []string) string {
	if _, glued, ok := strings.Cut(line[0], "="); ok {
		return glued
	}
	return strings.Join(line[1:], "=")
}

// You can paste a hint: it has the given value instead of the placeholder.
func TestRefusalsHaveTheValue(t *testing.T) {
	for _, d := range dialects {
		for o := range d.Options {
			if !o.Refused() || !o.TakesValue() {
				continue
			}
			values := make([]string, max(o.words, 1))
			for i := range values {
				values[i] = fmt.Sprintf("v%d", i)
			}
			words := regexp.MustCompile(`[A-Z]+`).FindAllString(o.refusal(strings.Join(values, "=")), -1)
			for i, name := range o.placeholders() {
				require.NotContains(t, words, name, o.Name())
				require.Equal(t, slices.Contains(regexp.MustCompile(`[A-Z]+`).FindAllString(o.Help, -1), name),
					strings.Contains(o.refusal(strings.Join(values, "=")), values[i]), o.Name())
			}
		}
	}
	genv := &Option{Names: "genv", Value: "NAME VALUE", words: 2, Help: "use -x NAME=VALUE"}
	require.Equal(t, `use -x A='b c=d'`, genv.refusal("A=b c=d"))
	require.Equal(t, "use -x VALUE=NAME", genv.refusal("VALUE=NAME"), "a value is not read again")
	require.Equal(t, "use --nproc-per-node '1'\\''2'", Gorun.exact("--ntasks-per-node").refusal("1'2"))
	list := &Option{Names: "genvlist", Value: "NAME,...", Help: "use -x NAME=VALUE to change one"}
	require.Equal(t, list.Help, list.refusal("A,B"))
}

// eachSpelling writes an option in every form that its dialect reads.
func eachSpelling(d *Dialect, o *Option) [][]string {
	var lines [][]string
	for _, n := range o.AllNames() {
		names := []string{Spelling(n), Spelling(strings.ReplaceAll(n, "-", "_"))}
		if !d.strict {
			names = append(names, "-"+n)
		}
		for _, typed := range names {
			value, ok := sample[o.Name()]
			if !ok {
				value = "1"
			}
			switch {
			case !o.TakesValue():
				lines = append(lines, []string{typed})
			case o.words > 2:
				lines = append(lines, append([]string{typed}, slices.Repeat([]string{"1"}, o.words)...))
			case o.words == 2:
				if !ok {
					value = "K=V"
				}
				lines = append(lines, append([]string{typed}, strings.SplitN(value, "=", 2)...), []string{typed, value})
			default:
				lines = append(lines, []string{typed, value}, []string{typed + "=" + value})
			}
		}
	}
	return lines
}

// torchrunOptions reads the stored list of torchrun's options: spellings, and
// whether each takes a value.
func torchrunOptions(t *testing.T) map[string]bool {
	file, err := os.Open(filepath.Join("testdata", "torchrun-2.15.txt"))
	require.NoError(t, err)
	defer file.Close()
	takesValue := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		names, valued := strings.CutSuffix(lines.Text(), " =")
		for _, n := range strings.Fields(names) {
			takesValue[n] = valued
		}
	}
	require.Len(t, takesValue, 63)
	return takesValue
}

// TestEveryOptionOfTorchrun: gorun knows all of torchrun's spellings, and they take values as in torchrun.
func TestEveryOptionOfTorchrun(t *testing.T) {
	for _, d := range dialects {
		for typed, takesValue := range torchrunOptions(t) {
			o := d.exact(typed)
			require.NotNil(t, o, "%s does not know %s", d.Name, typed)
			require.Equal(t, takesValue, o.TakesValue(), "%s %s", d.Name, typed)
		}
	}
}

// The table of torchrun's options contains no other options.
func TestTorchrunTableIsTorchruns(t *testing.T) {
	known := torchrunOptions(t)
	for _, o := range torchrunTable(new(Line)) {
		for _, n := range o.AllNames() {
			require.Contains(t, known, Spelling(n))
		}
	}
}

// TestStoredListIsTorchruns compares the list with the real torchrun.
func TestStoredListIsTorchruns(t *testing.T) {
	python := testneeds.Torch(t)
	got, err := exec.Command(python, filepath.Join("testdata", "torchrun_options.py")).Output()
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "torchrun-2.15.txt"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestByName(t *testing.T) {
	for name, want := range map[string]*Dialect{
		"gorun": Gorun, "./gorun": Gorun, "/opt/bin/gorun-2": Gorun, "": Gorun, "torchrun": Torchrun,
		"/venv/bin/torchrun": Torchrun,
		"mpirun":             Mpirun, "mpiexec": Mpiexec, "orterun": Mpirun, "mpiexec.hydra": Mpiexec,
		"torch.distributed.launch": Launch,
		"prterun":                  Prterun, "mpirun.openmpi": Mpirun, "mpiexec.openmpi": Mpirun, "orterun.openmpi": Mpirun,
		"/usr/bin/mpiexec.mpich": Mpiexec, "mpirun.mpich": Mpiexec,
	} {
		require.Same(t, want, ByName(name), name)
		if base := path.Base(name); want.colons {
			require.Contains(t, nestedLaunchers, base, "in a batch job it starts ranks itself")
		}
	}
}
