package dialect

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/job"
)

// tuneTable holds --tune. mpirun and mpiexec have their own, which takes these words, too.
func tuneTable(p *Line) []Option {
	return []Option{{
		Names: "tune", Group: GroupMeeting, Value: strings.Join(tunes, "|"), Set: p.setTunes,
		Help: "set variables of NCCL and Gloo that the hosts need (auto)",
	}}
}

// studyTable holds the assumptions of --tune textbook.
func studyTable(p *Line) []Option {
	return []Option{
		{
			Names: "model-size", Group: GroupMeeting, Value: "SIZE", From: NoVar,
			Help: "assume a model of SIZE for --tune textbook: 7.5GB or 7GiB (1GB)",
			Set:  Parsed(&p.Spec.Study.ModelBytes, ParseModelSize),
		},
		{
			Names: "network", Group: GroupMeeting, Value: strings.Join(job.StudyNetworks(), "|"), From: NoVar,
			Help: "assume this network for --tune textbook (one host: nvlink)",
			Set:  Choice(&p.Spec.Study.Network),
		},
	}
}

// tunes are the words of --tune.
var tunes = []string{string(job.TuneAuto), string(job.TuneOff), string(job.TuneTextbook)}

func (p *Line) setTunes(a Arg) error {
	if p.tuned(a) {
		return nil
	}
	return errors.New("not one of " + strings.Join(tunes, ", ") +
		"; mpirun's file of parameters is --am FILE, Intel MPI's tuning data -x I_MPI_TUNING_BIN=FILE")
}

// setTuningData takes Intel MPI's -tune, which its library reads as a variable.
func (p *Line) setTuningData(a Arg) error {
	if p.tuned(a) {
		return nil
	}
	p.export(a, true, "I_MPI_TUNING_BIN", a.Value)
	return notEmpty(a)
}

// tuned sets a word of --tune, and reports whether it is one.
func (p *Line) tuned(a Arg) bool {
	if !slices.Contains(tunes, a.Value) {
		return false
	}
	p.Spec.Tune = job.Tune(a.Value)
	return true
}

// modelUnits are decimal and binary.
var modelUnits = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"tib", 1 << 40},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"tb", 1e12},
	{"b", 1},
}

// ParseModelSize reads a number of bytes, with a fraction or not: 7.5GB is decimal,
// 7GiB binary.
func ParseModelSize(value string) (int64, error) {
	number, unit := strings.ToLower(strings.TrimSpace(value)), 1.0
	for _, u := range modelUnits {
		if cut, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(cut), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if size := n * unit; err == nil && size >= 1 && size < math.MaxInt64 {
		return int64(math.Round(size)), nil
	}
	return 0, errors.New("not a size; write 7.5GB (10^9 bytes), 7GiB (2^30 bytes), 500MB or a number of bytes")
}
