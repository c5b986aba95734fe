package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"gorun/cmd/gorun/internal/dialect"
)

// parseSize parses a number of bytes, from 1 on. It may have a fraction and a unit, K, M, G or T, which are powers of
// 1024 and may be followed by B or iB.
func parseSize(value string) (int64, error) {
	number, unit := strings.ToUpper(value), 1.0
	for _, suffix := range []string{"IB", "B"} {
		if cut, ok := strings.CutSuffix(number, suffix); ok {
			number = cut
			break
		}
	}
	for i, letter := range []string{"K", "M", "G", "T"} {
		if cut, ok := strings.CutSuffix(number, letter); ok {
			number, unit = cut, float64(int64(1)<<(10*(i+1)))
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	size, isWhole := n*unit, n == math.Trunc(n)
	if err == nil && (isWhole || unit > 1) && size >= 1 && size < math.MaxInt64 {
		return int64(math.Round(size)), nil
	}
	return 0, errors.New("not a size; write 1000000 (bytes), 64K, 1.5M or 4G")
}

// parseLength parses a size that fits into 31 bits.
func parseLength(value string) (int, error) {
	n, err := parseSize(value)
	if err == nil && n > math.MaxInt32 {
		err = errors.New("more than 2G - 1 bytes")
	}
	return int(n), err
}

// parsePositiveDuration parses a duration above 0.
func parsePositiveDuration(value string) (time.Duration, error) {
	d, err := dialect.ParseDuration(value)
	if err != nil || d == 0 {
		err = errors.New("not a time above 0; write 12ms or 0.5 (seconds)")
	}
	return d, err
}

// parseNumber parses a number that is not negative.
func parseNumber(value string) (*int, error) {
	n, err := dialect.ParseAtLeast(value, 0)
	return &n, err
}
