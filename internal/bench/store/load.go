package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
)

// result is a line of storeload; each mode fills some of it. Times are in seconds.
type result struct {
	Op           string
	Server       int
	Operations   float64
	Seconds, CPU float64
	Clients      int
	Samples      int
	P50, P99     float64
}

// load runs storeload to its end.
func (r *run) load(mode string, args ...string) ([]result, error) {
	command := exec.Command(r.programs.Storeload, append([]string{mode}, args...)...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	results, decodeErr := decode(output)
	if err := errors.Join(decodeErr, command.Wait()); err != nil {
		return nil, fmt.Errorf("storeload %s %v: %w", mode, args, err)
	}
	return results, nil
}

func decode(from io.Reader) (all []result, err error) {
	for lines := json.NewDecoder(from); ; {
		var one result
		switch err := lines.Decode(&one); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, one)
	}
}

// rounds runs a mode that knows one server for both in turn, and hands each result to add.
func (r *run) rounds(rounds int, add func(server int, one result), mode string, args ...string) error {
	for round := range rounds {
		for turn := range r.pair {
			at := (turn + round) % len(r.pair)
			one, err := r.once(at, mode, args...)
			if err != nil {
				return err
			}
			add(at, one)
		}
	}
	return nil
}

// once runs a mode for one server, when both are at rest.
func (r *run) once(at int, mode string, args ...string) (result, error) {
	if err := r.pair.settle(); err != nil {
		return result{}, err
	}
	all, err := r.load(mode, append([]string{"-s", r.pair[at].spec()}, args...)...)
	if err != nil {
		return result{}, fmt.Errorf("the store of %s: %w", r.pair[at].name, err)
	}
	if len(all) != 1 {
		return result{}, fmt.Errorf("storeload %s gave %d results instead of one", mode, len(all))
	}
	return all[0], nil
}

// held returns a server's memory in KiB while that many idle connections are open.
func (r *run) held(s *server, connections int) (kib int, err error) {
	command := exec.Command(r.programs.Storeload, "idle", "-s", s.spec(), "-c", strconv.Itoa(connections))
	command.Stderr = os.Stderr
	hold, err := command.StdinPipe()
	if err != nil {
		return 0, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := command.Start(); err != nil {
		return 0, err
	}
	var one result
	err = json.NewDecoder(output).Decode(&one)
	if err == nil {
		kib, err = s.memory()
	}
	_ = hold.Close()
	return kib, errors.Join(err, command.Wait(), r.pair.settle())
}
