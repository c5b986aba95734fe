package rendezvous

import (
	"fmt"
	"math"
)

// NotNumberError is the error of [Engine.Add] and [Engine.Arrive] if the value of the key is not a number.
type NotNumberError struct {
	Key   string
	Value []byte
}

func (e *NotNumberError) Error() string {
	return fmt.Sprintf("%s holds %s, which is not a number", quote(e.Key), quote(string(e.Value)))
}

// quote quotes s and shortens it.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// number parses the decimal number at the beginning of text like C++'s std::stoll, which other users of a counter call:
// spaces and a sign may come first, what follows the digits is ignored, and a number that exceeds 64 bits is invalid.
func number(text []byte) (n int64, ok bool) {
	for len(text) > 0 && (text[0] == ' ' || text[0] >= '\t' && text[0] <= '\r') {
		text = text[1:]
	}
	limit, sign := uint64(math.MaxInt64), int64(1)
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		if text[0] == '-' {
			limit, sign = limit+1, -1
		}
		text = text[1:]
	}
	magnitude, digits := uint64(0), 0
	for ; digits < len(text) && text[digits] >= '0' && text[digits] <= '9'; digits++ {
		digit := uint64(text[digits] - '0')
		if magnitude > (limit-digit)/10 {
			return 0, false
		}
		magnitude = magnitude*10 + digit
	}
	return sign * int64(magnitude), digits > 0 // -1 * int64(1<<63) wraps to the least int64, as it should
}
