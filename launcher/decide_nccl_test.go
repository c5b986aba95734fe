package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/job"
)

// NCCL and its file of settings are looked for as ranks will, whose variables -x gives.
func TestNCCLIsLookedForAsRanksDo(t *testing.T) {
	value := func(name, value string) job.Export { return job.Export{Name: name, Value: value, HasValue: true} }
	for name, test := range map[string]struct {
		all, first, want []job.Export
	}{
		"for all":                {all: []job.Export{value("LD_LIBRARY_PATH", "/a"), value("LD_PRELOAD", "/b.so"), value("PATH", "/c")}, want: []job.Export{value("LD_LIBRARY_PATH", "/a"), value("LD_PRELOAD", "/b.so")}},
		"the last counts":        {all: []job.Export{value("NCCL_CONF_FILE", "/a"), value("NCCL_CONF_FILE", "/b")}, want: []job.Export{value("NCCL_CONF_FILE", "/b")}},
		"the program's own wins": {all: []job.Export{value("NCCL_CONF_FILE", "/a")}, first: []job.Export{value("NCCL_CONF_FILE", "/b")}, want: []job.Export{value("NCCL_CONF_FILE", "/b")}},
		"taken away":             {all: []job.Export{{Name: "NCCL_CONF_FILE", Remove: true}}, want: []job.Export{value("NCCL_CONF_FILE", "")}},
		"as it is here":          {all: []job.Export{{Name: "NCCL_CONF_FILE"}}},
	} {
		s := session{spec: Spec{Environ: []string{"NCCL_CONF_FILE=/here"}, Exports: test.all, Apps: []job.App{{Exports: test.first}, {Exports: []job.Export{value("LD_PRELOAD", "/other")}}}}}
		var want []string
		for _, e := range test.want {
			want = append(want, e.Name+"="+e.Value)
		}
		assert.Equal(t, append(want, "NCCL_CONF_FILE=/here"), s.hello().Environ, name)
	}
}

// A port for NCCL's RAS is looked for where ranks are told of one, and nowhere else.
func TestRASPortOnlyWhereRanksAreTold(t *testing.T) {
	for tune, want := range map[job.Tune]bool{"": true, job.TuneAuto: true, job.TuneOff: false, job.TuneTextbook: false} {
		s := session{spec: Spec{Tune: tune}}
		assert.Equal(t, want, s.namesRAS(), tune)
	}
}
