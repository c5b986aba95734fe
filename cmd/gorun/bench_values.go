package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/shellwords"
)

// setOperation reads the operation's name: all_reduce, AllReduce, all-reduce, all_reduce_perf and MPI_Allreduce are
// one.
func (o *benchOptions) setOperation(word string) error {
	name, perf := strings.CutSuffix(strings.ToLower(word), "_perf")
	name = strings.TrimPrefix(name, "mpi_")
	name = strings.NewReplacer("_", "", "-", "").Replace(name)
	switch name {
	case "bcast":
		name = "broadcast"
	case "reducescatterblock": // MPI's whose parts are equal, as they are here
		name = "reducescatter"
	}
	if !slices.Contains(benchOperations, name) {
		return fmt.Errorf("not an operation; there are %s", strings.Join(benchOperations, ", "))
	}
	if o.Operation != "" && o.Operation != name {
		return fmt.Errorf("one operation at a time: there is %s already", o.Operation)
	}
	o.Operation, o.asNCCLTests = name, o.asNCCLTests || perf
	return nil
}

// strayWord refuses a word that is no operation. Behind an unknown option it is the value, and the option is told of.
func (o *benchOptions) strayWord(before []string, word string, err error) {
	last := ""
	if len(before) > 0 && len(before[len(before)-1]) > 1 && before[len(before)-1][0] == '-' {
		last = before[len(before)-1]
	}
	option, known := o.Find(last)
	switch {
	case last == "--" || last != "" && !known:
	case option != nil && slices.Contains([]string{"json", "csv"}, option.Names[0]):
		o.problem("%s takes no file: write %s > %s", last, last, shellwords.Quote(word))
	default:
		o.problem("%s: %w", dialect.Typed([]string{word}), err)
	}
}

// setRanks takes a number of ranks, and says what nccl-tests' -n is here.
func (o *benchOptions) setRanks(a dialect.Arg) error {
	before := o.RanksFrom()
	err := o.SetRanks(a)
	if _, wrong := dialect.ParseRanks(a.Value); err == nil || wrong != nil {
		return err
	}
	for _, from := range []string{a.From, before} {
		if n := iterations(from); n != "" {
			return fmt.Errorf("%w; both are numbers of ranks: nccl-tests' iterations are --iters %s", err, n)
		}
	}
	return err
}

// iterations is the number where an option is -n, which nccl-tests has for iterations; "" otherwise.
func iterations(from string) string {
	n, short := strings.CutPrefix(from, "-n")
	n = strings.TrimLeft(n, " =")
	if _, err := strconv.Atoi(n); !short || err != nil {
		return ""
	}
	return n
}

// atLeast reads a number from least on.
func atLeast(least int) func(string) (int, error) {
	return func(value string) (int, error) { return dialect.ParseAtLeast(value, least) }
}

// nameOf reads one of names, in letters of any size.
func nameOf(names []string) func(string) (string, error) {
	return func(value string) (string, error) {
		value = strings.ToLower(value)
		return value, dialect.OneOf(value, names...)
	}
}

// parseBenchSize reads a size of those to be measured.
func parseBenchSize(value string) (int64, error) {
	n, err := parseSize(value)
	if err != nil {
		err = errors.New("not a size from 1 on; write 8 (bytes), 64K, 64M or 4G")
	}
	return n, err
}

// parsePredicted reads a size with the units of --maxbytes, which may be a fraction of one.
func parsePredicted(value string) (int64, error) {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(value), "B"), "I")
	unit := 1.0
	for i, letter := range []string{"K", "M", "G", "T"} {
		if cut, ok := strings.CutSuffix(number, letter); ok {
			number, unit = cut, float64(int64(1)<<(10*(i+1)))
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if size := n * unit; err == nil && size >= 1 && size < math.MaxInt64 {
		return int64(math.Round(size)), nil
	}
	return 0, errors.New("not a size; write 25M or 1.3G (2^20, 2^30 bytes, as --maxbytes has them) or a number of bytes")
}

// linkUnits are those of bandwidths, in bytes a second, without prefixes. A small b is bits, wherever it stands alone.
var linkUnits = []struct {
	tail  string
	bytes float64
}{{"bit", 1.0 / 8}, {"bits", 1.0 / 8}, {"b", 1.0 / 8}, {"B", 1}}

// parseLink reads a bandwidth in bytes a second. Prefixes are decimal, as networks and the columns have them; Ki, Mi,
// Gi and Ti are not.
func parseLink(value string) (float64, error) {
	text := strings.TrimSpace(value)
	for _, tail := range []string{"/s", "ps"} {
		if cut, ok := strings.CutSuffix(text, tail); ok {
			text = cut
			break
		}
	}
	end := strings.LastIndexAny(text, "0123456789.") + 1
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || n <= 0 || math.IsInf(n, 0) {
		return 0, errors.New("not a bandwidth; write 25GB/s (bytes) or 200Gb/s (bits)")
	}
	unit := strings.TrimSpace(text[end:])
	for i, prefix := range []string{"", "K", "M", "G", "T"} {
		for _, u := range linkUnits {
			rest, has := strings.CutSuffix(unit, u.tail)
			switch {
			case !has:
			case strings.EqualFold(rest, prefix):
				return n * math.Pow(1000, float64(i)) * u.bytes, nil
			case i > 0 && strings.EqualFold(rest, prefix+"i"):
				return n * math.Pow(1024, float64(i)) * u.bytes, nil
			}
		}
	}
	return 0, fmt.Errorf("bytes or bits a second, and how many? Write %[1]sGB/s (10^9 bytes) or %[1]sGb/s (10^9 bits)",
		strings.TrimSpace(text[:end]))
}

// parsePerSize reads the time for the trials of a size.
func parsePerSize(value string) (time.Duration, error) {
	d, err := dialect.ParseDuration(value)
	if err != nil || d == 0 {
		err = errors.New("not a time above 0; write 100ms or 0.1 (seconds)")
	}
	return d, err
}

func parseCompute(value string) (time.Duration, error) {
	d, err := dialect.ParseDuration(value)
	switch {
	case err != nil:
		err = errors.New("not a time; write 12ms or 0.5 (seconds)")
	case d < time.Nanosecond:
		err = errors.New("a step needs some time to compute; write 12ms or 0.5 (seconds)")
	}
	return d, err
}

func parseDType(value string) (string, error) {
	name := strings.TrimPrefix(strings.ToLower(value), "torch.")
	if other, ok := benchDTypeNames[name]; ok {
		name = other
	}
	return name, dialect.OneOf(name, benchDTypes...)
}
