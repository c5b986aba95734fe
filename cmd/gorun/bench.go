package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"

	"gorun/cmd/gorun/internal/early"
	"gorun/comm/bench"
	"gorun/env"
	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
	"gorun/placement"
	"gorun/placement/nvml/worker"
	"gorun/placement/sysfs"
)

// run runs a measurement as a job whose ranks are this program, or hands the
// command line to the one that has collectives.
func (o *benchOptions) run() error {
	if !bench.Linked {
		path, err := withCollectives(worker.Program{})
		if err == nil {
			environ := os.Environ()
			if token, given := o.around.Lookup(env.VarToken); given { // it is this process that goes on
				environ = append(environ, env.VarToken+"="+token)
			}
			words := append([]string{"gorun", "bench"}, o.args...)
			err = fmt.Errorf("execute %s: %w", path, syscall.Exec(path, words, environ))
		}
		return multierror.Append(err, errors.New(howToGetCollectives))
	}
	err := o.fillIn()
	if err == nil && !o.DryRun && !isAway(o.Spec.Hosts) {
		err = withoutGPUs(o.Backend, os.Getenv, exists)
	}
	if err != nil {
		return err
	}
	return exitWith(runJob(o.Invocation))
}

// drivers are the devices that drivers of NVIDIA (also within WSL) and AMD make.
var drivers = []string{"/dev/nvidiactl", "/dev/dxg", "/dev/kfd"}

// withoutGPUs says once, before each rank does, that this host has nothing for the nccl back end. A library that the
// environment names may be another one, which needs no driver.
func withoutGPUs(backend string, getenv func(string) string, there func(path string) bool) error {
	if backend != "nccl" || getenv("COMM_NCCL_LIBRARY") != "" || slices.ContainsFunc(drivers, there) {
		return nil
	}
	return errors.New("--backend nccl, which -g asks for, too, as each of its ranks has a GPU, finds none on this host: " +
		"no driver is loaded (none of " +
		strings.Join(drivers, ", ") + "); use --backend cpu, and -np in place of -g")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// howToGetCollectives is what to do where the program that has them is missing.
const howToGetCollectives = "hint: gorun bench needs gorun built with cgo: make gorun-gpu, or CGO_ENABLED=1 go build " +
	"-o gorun-gpu ./cmd/gorun, in gorun's sources; put gorun-gpu beside gorun"

// withCollectives finds the program that has collectives, built from the same
// sources, for one that was built without cgo.
func withCollectives(p worker.Program) (string, error) {
	path, err := p.Find()
	if err != nil {
		return "", fmt.Errorf("this gorun was built without cgo and has no collectives, and %w", err)
	}
	said, err := exec.Command(path, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", path, err)
	}
	if words := strings.Fields(string(said)); len(words) < 2 || words[1] != version.String() {
		return "", fmt.Errorf("%s is %.80q, this is version %s: install both together", path,
			strings.TrimSpace(string(said)), version.String())
	}
	return path, nil
}

// fillIn makes this program the one of the job.
func (o *benchOptions) fillIn() error {
	wish := o.Config
	wish.Version = version.String()
	if !o.DryRun && wish.SVG != "" && wish.SVG != "-" {
		var err error
		if wish.SVG, err = filepath.Abs(wish.SVG); err == nil { // ranks may run elsewhere
			err = canWrite(wish.SVG)
		}
		if err != nil {
			return of("--svg", err)
		}
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(wish)
	app := &o.Spec.Apps[0]
	app.Program, app.Args = own, []string{"bench-rank", string(text)}
	if isAway(o.Spec.Hosts) {
		o.Spec.Reach.Programs = append(o.Spec.Reach.Programs, own)
	}
	return err
}

// isAway reports whether some host is another than this one.
func isAway(list []hosts.Host) bool {
	return slices.ContainsFunc(list, func(h hosts.Host) bool { return !h.Here })
}

// benchHost is what a rank of the operation p2p learns from its host.
func benchHost() bench.Host {
	name, _ := os.Hostname()
	return bench.Host{
		Name: name,
		Machine: func() placement.Machine {
			m := sysfs.Read(everything)
			askLibrary(&m)
			m.GPUs, _ = placement.Visible(m.GPUs, placement.VisibilityOf(os.Environ()))
			return m
		},
		Find: func(program string) bool { _, err := exec.LookPath(program); return err == nil },
		Output: func(ctx context.Context, program string, args ...string) (string, error) {
			cmd := exec.CommandContext(ctx, program, args...) // #nosec G204 -- a program of perftest
			cmd.WaitDelay = time.Second
			said, err := cmd.CombinedOutput()
			if err != nil {
				lines := strings.Split(strings.TrimSpace(string(said)), "\n")
				err = fmt.Errorf("%s: %w: %.200s", program, err, lines[len(lines)-1])
			}
			return string(said), err
		},
	}
}

// benchRankCommand is one rank of a measurement; the word is what gorun bench gives its ranks: JSON.
func benchRankCommand(c *call) *command {
	r := &wordRequest{
		call: c, least: 1, most: 1,
		refusal: "gorun bench-rank is what gorun bench starts; gorun ./bench-rank starts a program of that name",
	}
	r.act = func(config string) error { return benchRank(config, c.stdout) }
	return r.hidden()
}

func benchRank(config string, stdout io.Writer) error {
	early.Over()
	var c bench.Config
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = bench.Run(context.Background(), c, benchHost(), stdout)
	}
	var unwilling *bench.WishError
	switch {
	case errors.As(err, &unwilling):
		return failure{job.ExitUsage, err.Error()}
	case err != nil && !errors.Is(err, bench.ErrJoin):
		return failure{1, err.Error()}
	}
	return err
}
