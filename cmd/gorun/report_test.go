package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/job"
)

func TestHideSecrets(t *testing.T) {
	for given, want := range map[string]string{
		"gorun -x HF_TOKEN=a -x A=b ./x --lr=1": "gorun -x HF_TOKEN=<hidden> -x A=b ./x --lr=1",
		"gorun --env=HF_TOKEN=a x":              "gorun --env=HF_TOKEN=<hidden> x",
		"gorun x --api-key=a --url=a://b:c@d":   "gorun x --api-key=<hidden> --url=<hidden>",
		"mpiexec -env HF_TOKEN a -genv A b x":   "mpiexec -env HF_TOKEN <hidden> -genv A b x",
		"gorun x = =a a=":                       "gorun x = =a a=",
	} {
		assert.Equal(t, strings.Fields(want), plan.HideSecrets(strings.Fields(given)), given)
	}
}

func TestUnitsInJSON(t *testing.T) {
	text, err := json.Marshal([]any{job.Seconds(1_500_000_000), job.Seconds(1), []job.Streams{3, 0}})
	require.NoError(t, err)
	assert.Equal(t, "[1.5,0.000000001,[3,0]]", string(text), "seconds, and no base64")
}
