package show

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/version"
)

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	text := "<a> \xff \x1b[2J\x7f\u009b\u202e\u2028ü"
	require.NoError(t, JSON(&out, "sample", struct {
		Text  string   `json:"text"`
		Ranks []string `json:"ranks"`
		Size  int64    `json:"size"`
	}{text, []string{}, math.MaxInt64}))
	assert.Equal(t, `{
  "schema": 1,
  "gorun": "`+version.String()+`",
  "kind": "sample",
  "text": "<a> \ufffd \u001b[2J\u007f\u009b\u202e\u2028ü",
  "ranks": [],
  "size": 9223372036854775807
}
`, out.String())
	var back struct{ Text string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, string(bytes.ToValidUTF8([]byte(text), []byte("\ufffd"))), back.Text)
}

// What is no object with fields, or no JSON at all, writes nothing.
func TestJSONRefuses(t *testing.T) {
	for _, value := range []any{[]int{1}, nil, struct{}{}, map[string]float64{"x": math.NaN()}, json.RawMessage("{")} {
		var out bytes.Buffer
		require.Error(t, JSON(&out, "sample", value), "%v", value)
		require.Empty(t, out.String())
	}
}
