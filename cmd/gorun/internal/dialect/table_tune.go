package dialect

import (
	"errors"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// tuneTable is about the settings of NCCL's that ranks get. Called mpirun and mpiexec gorun
// has their own --tune FILE, which understands these words, too.
var tuneTable = []Option{
	{
		Names: []string{"tune"}, Group: GroupMeeting, Value: strings.Join(tunes, "|"), Choices: tunes,
		Help: "which settings of NCCL's and Gloo's ranks get beside yours: what the hosts ask for, none, or, for study, " +
			"what teaching texts recommend; see gorun env (default: auto)",
		set: func(p *parser, a arg) error {
			if !p.tuned(a) {
				return errors.New("not one of " + strings.Join(tunes, ", ") +
					"; mpirun's file of parameters is --am FILE, Intel MPI's tuning data -x I_MPI_TUNING_BIN=FILE")
			}
			return nil
		},
	},
}

// studyTable is what --tune textbook goes by.
var studyTable = []Option{
	{
		Names: []string{"model-size"}, Group: GroupMeeting, Value: "SIZE", from: varNone,
		Help: "of the model, for --tune textbook: 7.5GB (10^9), 7GiB (2^30), 500MB, 1000000 (default: 1GB)",
		set: func(p *parser, a arg) (err error) {
			p.inv.Spec.Study.ModelBytes, err = parseModelSize(a.value)
			return err
		},
	},
	{
		Names: []string{"network"}, Group: GroupMeeting, Value: strings.Join(job.StudyNetworks(), "|"),
		Choices: job.StudyNetworks(), from: varNone,
		Help: "between GPUs or hosts, for --tune textbook (default: ethernet with several hosts, else nvlink)",
		set: func(p *parser, a arg) error {
			p.inv.Spec.Study.Network = a.value
			return oneOf(a.value, job.StudyNetworks()...)
		},
	},
}

// tunes are the words of --tune.
var tunes = []string{string(job.TuneAuto), string(job.TuneOff), string(job.TuneTextbook)}

// tuned takes a word of --tune, and reports whether it is one.
func (p *parser) tuned(a arg) bool {
	if !slices.Contains(tunes, a.value) {
		return false
	}
	p.inv.Spec.Tune = job.Tune(a.value)
	return true
}

// noteStudy names the command that says of each setting of --tune textbook what is wrong with it, unless this is it.
func (p *parser) noteStudy() {
	if p.inv.Spec.Tune == job.TuneTextbook && !p.dialect.environs {
		p.note("gorun env --tune textbook says of each setting what is wrong with it")
	}
}
