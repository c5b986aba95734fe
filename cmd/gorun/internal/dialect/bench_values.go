package dialect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setOperation reads the operation's name: all_reduce, AllReduce, all-reduce, all_reduce_perf and MPI_Allreduce are
// one.
func (p *parser) setOperation(a arg) error {
	name, perf := strings.CutSuffix(strings.ToLower(a.value), "_perf")
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
	if p.bench.Operation != "" && p.bench.Operation != name {
		return fmt.Errorf("one operation at a time: there is %s already", p.bench.Operation)
	}
	p.bench.Operation, p.bench.asNCCLTests = name, p.bench.asNCCLTests || perf
	return nil
}

// strayWord refuses a word that is no operation. Behind an unknown option it is the value, and the option is told of.
func (p *parser) strayWord(before []string, word string, err error) {
	last := ""
	if len(before) > 0 && isOption(before[len(before)-1]) {
		last = before[len(before)-1]
	}
	option, _, _ := Bench.match(last)
	switch {
	case last == "--" || last != "" && option == nil && Bench.cluster(last) == nil:
	case option != nil && slices.Contains([]string{"json", "csv"}, option.Names[0]):
		p.problem(fmt.Errorf("%s takes no file: write %s > %s", last, last, shellWord(word)))
	default:
		p.problem(fmt.Errorf("%s: %w", typed([]string{word}), err))
	}
}

// setBenchRanks takes a number of ranks, and says what nccl-tests' -n is here.
func (p *parser) setBenchRanks(a arg) error {
	before := p.ranksFrom
	err := p.setRanks(a)
	if _, wrong := parseRanks(a.value); err == nil || wrong != nil {
		return err
	}
	for _, from := range []string{a.from, before} {
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

// setBenchSize reads a size of those to be measured.
func setBenchSize(into *int64, from *string, a arg) (err error) {
	*from = a.from
	if *into, err = parseSize(a.value); err != nil {
		err = errors.New("not a size from 1 on; write 8 (bytes), 64K, 64M or 4G")
	}
	return err
}

// setPredicted reads a size with the units of --maxbytes, which may be a fraction of one.
func (p *parser) setPredicted(a arg) error {
	p.bench.predictFrom = a.from
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(a.value), "B"), "I")
	unit := 1.0
	for i, letter := range []string{"K", "M", "G", "T"} {
		if cut, ok := strings.CutSuffix(number, letter); ok {
			number, unit = cut, float64(int64(1)<<(10*(i+1)))
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if size := n * unit; err == nil && size >= 1 && size < math.MaxInt64 {
		p.bench.Predict = int64(math.Round(size))
		return nil
	}
	return errors.New("not a size; write 25M or 1.3G (2^20, 2^30 bytes, as --maxbytes has them) or a number of bytes")
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

// setPerSize takes the time for the trials of a size.
func (p *parser) setPerSize(a arg) (err error) {
	if p.bench.PerSize, err = parseDuration(a.value); err != nil || p.bench.PerSize == 0 {
		err = errors.New("not a time above 0; write 100ms or 0.1 (seconds)")
	}
	return err
}

func (p *parser) setCompute(a arg) (err error) {
	p.bench.Compute, err = parseDuration(a.value)
	switch {
	case err != nil:
		err = errors.New("not a time; write 12ms or 0.5 (seconds)")
	case p.bench.Compute < time.Nanosecond:
		err = errors.New("a step needs some time to compute; write 12ms or 0.5 (seconds)")
	}
	return err
}

func (p *parser) setDType(a arg) error {
	name := strings.TrimPrefix(strings.ToLower(a.value), "torch.")
	if other, ok := benchDTypeNames[name]; ok {
		name = other
	}
	p.bench.DType, p.bench.dtypeFrom = name, a.from
	return oneOf(name, benchDTypes...)
}
