package rendezvous

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-2": -2, "+7": 7, " \t\n\v\f\r12x": 12, "007": 7, "1 2": 1,
		"9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
	} {
		n, ok := number([]byte(text))
		require.True(t, ok, "%q", text)
		require.Equal(t, want, n, "%q", text)
	}
	for _, text := range []string{
		"", " ", "x", "-", "+-1", "- 1", "--1", "\x001", "9223372036854775808", "-9223372036854775809",
		"99999999999999999999999",
	} {
		_, ok := number([]byte(text))
		require.False(t, ok, "%q", text)
	}
}

func TestNotNumberErrorNamesKeyAndValue(t *testing.T) {
	e := NewEngine()
	e.Set(b("k"), b("x"))
	_, err := e.Add(b("k"), 1)
	var wrong *NotNumberError
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, `"k" holds "x", which is not a number`)
	_, err = e.Arrive(&Waiter{}, b("k"), 2)
	require.ErrorAs(t, err, &wrong)
}
