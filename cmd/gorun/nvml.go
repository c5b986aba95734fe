package main

import (
	"errors"
	"os"

	"gorun/internal/version"
	"gorun/placement"
	"gorun/placement/gpufacts"
	"gorun/placement/nvml"
	"gorun/placement/nvml/worker"
	"gorun/placement/sysfs"
)

// nvmlWorker is the program that asks NVIDIA's library: this one if it was built
// with cgo, else gorun-gpu.
func nvmlWorker() worker.Program {
	p := worker.Program{Version: version.String()}
	if nvml.Linked {
		p.Path = worker.Itself
	}
	return p
}

// askLibrary completes this machine by what only NVIDIA's library tells, where it
// has GPUs of NVIDIA, and returns remarks.
func askLibrary(m *placement.Machine) (notes []string) {
	wish := gpufacts.Wish{All: true}
	if !wish.NeedsLibrary(*m, sysfs.NVIDIASigns()) {
		return nil
	}
	program := nvmlWorker()
	program.Slow = func() { say(os.Stderr, worker.SlowText) }
	facts, err := program.Facts(len(m.GPUs))
	return wish.Complete(m, facts, err)
}

// nvmlCommand is that program at work; the word is the version of the gorun that asks, none is any.
func nvmlCommand(c *call) *command {
	r := &wordRequest{
		call: c, most: 1,
		refusal: "gorun nvml-facts takes a version alone; gorun ./nvml-facts starts a program of that name",
	}
	r.act = func(wanted string) error {
		if !nvml.Linked {
			return errors.New(worker.Verb + ": this gorun was built without cgo; " + worker.Name +
				" is the one that can ask NVIDIA's library")
		}
		return worker.Answer(c.stdout, wanted, version.String(), nvml.Ask)
	}
	return r.hidden()
}
