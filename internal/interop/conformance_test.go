package interop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// intended lists the cases where gorun's store differs from PyTorch's libuv server on purpose, and its outcome.
// docs/internals/store.md lists them for users.
var intended = map[string]struct{ outcome, why string }{
	"value_beyond_8_mib": {`["True","True"]`, "a larger value is taken: the limit is 64 MiB and an option"},
	"key_beyond_8_kib":   {`["True","True"]`, "a longer key is taken: the limit is 64 KiB and an option"},
	"greeting_in_two_packets": {
		`"b'\\x01\\x02\\x03\\x04'"`,
		"libuv's server drops a client whose greeting comes in pieces, which a network may make of it",
	},
	"noise": {`["b''","b''","b'v'"]`, "libuv's server keeps connections with garbage open, and reads what they send"},
	"compare_set_that_stores_nothing_wakes_nobody": {
		`["b'\\x01\\x01\\x01\\x01'","b'not this'","b'\\x02\\x02\\x02\\x02'"]`,
		"libuv's server wakes those who wait for a key when a compare-and-set leaves it missing",
	},
	"served_queue_waiter_waits_for_another_key": {
		`["b'\\x01\\x01\\x01\\x01'","b'\\x00'","` +
			`b'\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x001\\x02\\x02\\x02\\x02'",` +
			`"b'\\x03\\x03\\x03\\x03'"]`,
		"libuv's server ends the wait for another key falsely at the next push to a queue that the " +
			"connection once waited for",
	},
}

// compared is the outcome of one case with both servers.
type compared struct {
	Case         string
	Gorun, Libuv json.RawMessage
}

// TestStoreConformance runs PyTorch's own client against `gorun store` and against PyTorch's own server. PyTorch's
// server is the oracle: outcomes are equal except in the listed cases.
func TestStoreConformance(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	store := serve(t)
	host, port, _ := strings.Cut(store.addr.String(), ":")
	got := job{argv: []string{python, "testdata/store_cases.py", host, port}}.with("TORCH_CPP_LOG_LEVEL=FATAL").run(t)
	require.Zero(t, got.code, "%s%s", got.stdout, got.stderr)

	cases := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Greater(t, len(cases), 40)
	seen := map[string]bool{}
	for _, line := range cases {
		var c compared
		require.NoError(t, json.Unmarshal([]byte(line), &c), line)
		seen[c.Case] = true
		t.Run(c.Case, func(t *testing.T) { c.check(t) })
	}
	for name := range intended {
		require.True(t, seen[name], "there is no case %s", name)
	}
	said := store.stop(t)
	require.NotContains(t, said, "panic")
}

func (c compared) check(t *testing.T) {
	differs, ok := intended[c.Case]
	if !ok {
		require.JSONEq(t, string(c.Libuv), string(c.Gorun))
		return
	}
	require.JSONEq(t, differs.outcome, string(c.Gorun))
	require.NotEqual(t, string(c.Libuv), string(c.Gorun), "no difference any more: take it off the list (%s)", differs.why)
}
