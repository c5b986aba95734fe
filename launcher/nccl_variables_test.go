package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/job"
)

// The launcher looks for NCCL and its configuration file as ranks do, with variables that -x sets.
func TestNCCLExports(t *testing.T) {
	value := func(name, value string) job.Export { return job.Export{Name: name, Value: value, HasValue: true} }
	for name, test := range map[string]struct {
		all, first, want []job.Export
	}{
		"for all": {
			all:  []job.Export{value("LD_LIBRARY_PATH", "/a"), value("LD_PRELOAD", "/b.so"), value("PATH", "/c")},
			want: []job.Export{value("LD_LIBRARY_PATH", "/a"), value("LD_PRELOAD", "/b.so")},
		},
		"the last counts": {
			all:  []job.Export{value("NCCL_CONF_FILE", "/a"), value("NCCL_CONF_FILE", "/b")},
			want: []job.Export{value("NCCL_CONF_FILE", "/b")},
		},
		"the program's own wins": {
			all: []job.Export{value("NCCL_CONF_FILE", "/a")}, first: []job.Export{value("NCCL_CONF_FILE", "/b")},
			want: []job.Export{value("NCCL_CONF_FILE", "/b")},
		},
		"taken away": {
			all: []job.Export{{Name: "NCCL_CONF_FILE", Remove: true}}, want: []job.Export{value("NCCL_CONF_FILE", "")},
		},
		"as it is here": {all: []job.Export{{Name: "NCCL_CONF_FILE"}}},
	} {
		s := newSession(Spec{
			Environ: []string{"NCCL_CONF_FILE=/here"}, Exports: test.all,
			Apps: []job.App{{Exports: test.first}, {Exports: []job.Export{value("LD_PRELOAD", "/other")}}},
		}, Options{})
		var want []string
		for _, e := range test.want {
			want = append(want, e.Name+"="+e.Value)
		}
		assert.Equal(t, append(want, "NCCL_CONF_FILE=/here"), s.hello().Environ, name)
	}
}

// A note names the programs that find another file than the one in the plan.
func TestNCCLExportNotes(t *testing.T) {
	value := func(name, value string) job.Export { return job.Export{Name: name, Value: value, HasValue: true} }
	a, b := []job.Export{value("NCCL_CONF_FILE", "/a")}, []job.Export{value("NCCL_CONF_FILE", "/b"), value("FOO", "1")}
	const rest = ": gorun looks for NCCL's settings and library as program 1 finds them, so that this one's " +
		"own are not shown"
	for name, test := range map[string]struct {
		all  []job.Export
		apps []job.App
		want []string
	}{
		"alike": {a, []job.App{{}, {Exports: a}}, nil},
		"another": {
			nil, []job.App{{Exports: a}, {Exports: a}, {Exports: b}}, []string{"program 3 has -x NCCL_CONF_FILE=/b" + rest},
		},
		"the second's":  {nil, []job.App{{}, {Exports: b}}, []string{"program 2 has -x NCCL_CONF_FILE=/b" + rest}},
		"the first's":   {nil, []job.App{{Exports: a}, {}}, []string{"program 2 has no -x NCCL_CONF_FILE" + rest}},
		"of one":        {b, []job.App{{Exports: a}}, nil},
		"other's alone": {nil, []job.App{{}, {Exports: []job.Export{value("FOO", "1")}}}, nil},
	} {
		s := newSession(Spec{Exports: test.all, Apps: test.apps}, Options{})
		assert.Equal(t, test.want, s.ncclExportNotes(), name)
	}
}

// The launcher looks for a RAS port only if it sets one for ranks.
func TestSetsRASPort(t *testing.T) {
	for tune, want := range map[job.Tune]bool{"": true, job.TuneAuto: true, job.TuneOff: false, job.TuneTextbook: false} {
		s := newSession(Spec{Tune: tune}, Options{})
		assert.Equal(t, want, s.setsRASPort(), tune)
	}
}
