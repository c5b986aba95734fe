package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func with(name, value string) Export { return Export{Name: name, Value: value, HasValue: true} }

func TestExports(t *testing.T) {
	in := job(2, "SEED=1", "NCCL_A=1", "NCCL_B=2", "NCCL=3", "GORUN_NP=4")
	in.Exports = []Export{
		with("NEW", "a=b"),
		{Name: "SEED"},
		with("OMP_NUM_THREADS", "9"),
		{Name: "MISSING"},
		{Name: "NCCL_*"},
		{Name: "NONE_*"},
		{Name: "GORUN_NP"},
		with("TWICE", "1"), with("TWICE", "2"), with("STAR*", "kept"),
	}
	e := build(t, in)
	for _, want := range []Variable{
		{Name: "NEW", Value: "a=b", Origin: Exported, Reason: "-x NEW"},
		{Name: "SEED", Value: "1", Origin: Exported, Reason: "-x SEED"},
		{Name: "OMP_NUM_THREADS", Value: "9", Origin: Exported, Reason: "-x OMP_NUM_THREADS"},
		{Name: "NCCL_A", Value: "1", Origin: Exported, Reason: "-x NCCL_*"},
		{Name: "NCCL_B", Value: "2", Origin: Exported, Reason: "-x NCCL_*"},
		{Name: "NCCL", Value: "3", Origin: Inherited, Reason: "yours"},
		{Name: "GORUN_NP", Value: "4", Origin: Exported, Reason: "-x GORUN_NP"},
		{Name: "TWICE", Value: "2", Origin: Exported, Reason: "-x TWICE"},
		{Name: "STAR*", Value: "kept", Origin: Exported, Reason: "-x STAR*"},
	} {
		got, _ := e.of(1, want.Name)
		assert.Equal(t, want, got)
	}
	assert.Empty(t, e.removed("GORUN_NP"))
	assert.Equal(t, []string{
		"-x MISSING: the variable is not set on this host, so ranks do not get it",
		"-x NONE_*: no variable on this host matches, so ranks get none",
	}, e.Notes)
}

func TestExportedStoreAddressIsNotPassedOn(t *testing.T) {
	in := job(1, "GORUN_JOB=outer", "MASTER_PORT=9", "MASTER_ADDR=outer")
	in.Exports = []Export{{Name: "MASTER_PORT"}, with("MASTER_ADDR", "node1")}
	e := build(t, in)
	assert.Equal(t, "41873", value(t, e, 0, "MASTER_PORT"), "the caller decides where the store is, and says so")
	assert.Equal(t, "127.0.0.1", value(t, e, 0, "MASTER_ADDR"))
	assert.Empty(t, e.Removed)
}

// The origin of a store request is the user if ranks get the requested value. Other requests, and those of
// another launcher, do not count.
func TestOriginOfAStoreRequest(t *testing.T) {
	for _, test := range []struct {
		name      string
		inherited []string
		exports   []Export
		addr      Origin
		port      Origin
	}{
		{"none", nil, nil, Gorun, Gorun},
		{"as requested", []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=41873"}, nil, Inherited, Inherited},
		{"any port", []string{"MASTER_PORT=0"}, nil, Gorun, Gorun},
		{"another name", []string{"MASTER_ADDR=localhost"}, nil, Gorun, Gorun},
		{"-x", []string{"MASTER_ADDR=127.0.0.1"}, []Export{with("MASTER_PORT", "41873")}, Inherited, Exported},
		{"-x NAME", []string{"MASTER_ADDR=127.0.0.1"}, []Export{{Name: "MASTER_ADDR"}}, Exported, Gorun},
		{"an outer launcher's", []string{"MASTER_PORT=41873", "GORUN_JOB=7f3a"}, nil, Gorun, Gorun},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := job(1, test.inherited...)
			in.Exports = test.exports
			e := build(t, in)
			addr, _ := e.of(0, "MASTER_ADDR")
			port, _ := e.of(0, "MASTER_PORT")
			assert.Equal(t, test.addr, addr.Origin)
			assert.Equal(t, test.port, port.Origin)
		})
	}
}

func TestPatternsPassOverIdentities(t *testing.T) {
	in := job(1, "OMPI_COMM_WORLD_RANK=0", "OMPI_MCA_btl=tcp", "GORUN_TOKEN=secret", "GORUN_NP=2", "MASTER_PORT=1")
	in.Exports = []Export{{Name: "*"}}
	e := build(t, in)
	_, ok := e.of(0, "OMPI_COMM_WORLD_RANK")
	assert.False(t, ok)
	_, ok = e.of(0, "GORUN_TOKEN")
	assert.False(t, ok)
	assert.Equal(t, "2", value(t, e, 0, "GORUN_NP"))
	assert.Equal(t, "tcp", value(t, e, 0, "OMPI_MCA_btl"))
	assert.Equal(t, "41873", value(t, e, 0, "MASTER_PORT"))
	assert.Equal(t, []Removal{
		{"OMPI_COMM_WORLD_RANK", "an outer launcher's; ranks of this job get none (--mpi)"},
		{"GORUN_TOKEN", "secrets stay with the launcher"},
	}, e.Removed)
}

func TestRefusedExports(t *testing.T) {
	in := job(1, "GORUN_TOKEN=secret")
	in.Exports = []Export{
		with("RANK", "3"),
		{Name: "GORUN_TOKEN"},
		with("GORUN_JOB", "x"), with("PMI_JOBID", "0"), with("", "x"),
		{Name: "A=B"},
		with("NUL", "a\x00b"),
	}
	_, err := Build(in)
	require.Error(t, err)
	assert.EqualError(t, err, "-x GORUN_TOKEN: GORUN_TOKEN is a secret of the launcher: ranks never get it\n-x "+
		"PMI_JOBID=0: PMI_JOBID describes one rank of another launcher and would be the same for all ranks; leave it "+
		"out\n-x \"\": not the name of a variable\n-x \"A=B\": not the name of a variable\n-x NUL: the value "+
		"contains a zero byte\n-x RANK=3: gorun sets RANK for each rank; use an argument or a variable of another "+
		"name\n-x GORUN_JOB=x: gorun sets GORUN_JOB for each rank; use an argument or a variable of another name")
}

func TestStoreRequest(t *testing.T) {
	tests := []struct {
		name      string
		inherited []string
		exports   []Export
		addr      string
		port      int
		origin    string
	}{
		{"none", nil, nil, "", 0, ""},
		{"empty", []string{"MASTER_ADDR=", "MASTER_PORT="}, nil, "", 0, ""},
		{
			"environment",
			[]string{"MASTER_ADDR=node1", "MASTER_PORT=29500"},
			nil, "node1", 29500,
			"MASTER_ADDR and MASTER_PORT in the environment",
		},
		{"port alone", []string{"MASTER_PORT=29500"}, nil, "", 29500, "MASTER_PORT in the environment"},
		{"address alone", []string{"MASTER_ADDR=::1"}, nil, "::1", 0, "MASTER_ADDR in the environment"},
		{"any port", []string{"MASTER_PORT=0"}, nil, "", 0, "MASTER_PORT in the environment"},
		{"an outer gorun's", []string{"MASTER_ADDR=a", "MASTER_PORT=1", "GORUN_JOB=7f3a"}, nil, "", 0, ""},
		{"an outer torchrun's", []string{"MASTER_ADDR=a", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=none"}, nil, "", 0, ""},
		{
			"-x overrides the environment",
			[]string{"MASTER_PORT=1"},
			[]Export{with("MASTER_PORT", "2")},
			"", 2,
			"-x MASTER_PORT",
		},
		{
			"-x counts beside an outer launcher's",
			[]string{"MASTER_ADDR=a", "MASTER_PORT=1", "GORUN_JOB=7f3a"},
			[]Export{{Name: "MASTER_PORT"}},
			"", 1, "-x MASTER_PORT",
		},
		{"-x of a pattern", []string{"MASTER_ADDR=a", "MASTER_PORT=1"}, []Export{{Name: "MASTER_*"}}, "a", 1, "-x MASTER_*"},
		{
			"both ways",
			[]string{"MASTER_ADDR=a"},
			[]Export{with("MASTER_PORT", "2")},
			"a", 2,
			"MASTER_ADDR in the environment, -x MASTER_PORT",
		},
		{"the last -x counts", nil, []Export{with("MASTER_ADDR", "a"), with("MASTER_ADDR", "b")}, "b", 0, "-x MASTER_ADDR"},
		{"-x of nothing", nil, []Export{{Name: "MASTER_ADDR"}}, "", 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			addr, port, origin, err := StoreRequest(test.inherited, test.exports)
			require.NoError(t, err)
			assert.Equal(t, test.addr, addr)
			assert.Equal(t, test.port, port)
			assert.Equal(t, test.origin, origin)
		})
	}
}

func TestStoreRequestRejectsInvalidPorts(t *testing.T) {
	_, _, _, err := StoreRequest([]string{"MASTER_PORT=70000"}, nil)
	assert.EqualError(t, err, `MASTER_PORT in the environment: "70000" is not a TCP port (0 to 65535)`)
	_, _, _, err = StoreRequest(nil, []Export{with("MASTER_PORT", "-1")})
	assert.EqualError(t, err, `-x MASTER_PORT: "-1" is not a TCP port (0 to 65535)`)
	_, _, _, err = StoreRequest([]string{"MASTER_PORT=x", "GORUN_JOB=7f3a"}, nil)
	assert.NoError(t, err, "an outer launcher's is nobody's mistake here")
}
