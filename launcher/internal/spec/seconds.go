package spec

import (
	"strconv"
	"time"
)

// Seconds is a duration, in JSON a number of seconds.
type Seconds time.Duration

// MarshalJSON returns the number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads it.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	*s = Seconds(seconds * float64(time.Second))
	return err
}

// String returns the duration as "1m30s".
func (s Seconds) String() string { return time.Duration(s).String() }
