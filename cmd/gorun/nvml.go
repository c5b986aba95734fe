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

// nvmlWorker is the program that queries NVML: this one if it was built with cgo, otherwise gorun-gpu.
func nvmlWorker() worker.Program {
	p := worker.Program{Version: version.String()}
	if nvml.Linked {
		p.Path = worker.Itself
	}
	return p
}

// addNVMLFacts completes this machine with what only NVML knows, if it has NVIDIA GPUs, and returns notes.
func addNVMLFacts(m *placement.Machine) (notes []string) {
	query := gpufacts.Query{All: true}
	if !query.NeedsLibrary(*m, sysfs.NVIDIASigns()) {
		return nil
	}
	program := nvmlWorker()
	program.Slow = func() { notify(os.Stderr, worker.SlowText) }
	facts, err := program.Facts(len(m.GPUs))
	return query.Complete(m, facts, err)
}

// nvmlCommand is the worker. The word is the version of the gorun that started it; without one, any version will do.
func nvmlCommand(c *commandLine) *command {
	r := &wordRequest{
		commandLine: c, atMost: 1,
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
