package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
)

// setPPN sets the ranks per node. Beside a number of ranks they are a limit, as in every mpirun.
func (p *Line) setPPN(a Arg) error {
	n, err := ParseRanks(a.Value)
	if err != nil {
		return err
	}
	spec := &p.Spec
	if was := spec.PerNode; was.Kind != job.CountUnset && (was.Kind != job.CountFixed || was.N != n) {
		return fmt.Errorf("contradicts %s", was.From)
	}
	p.perNodeFrom = a.From
	spec.PerNode = job.Count{Kind: job.CountFixed, N: n, From: a.From}
	return nil
}

// one returns the setter of a flag that means the value 1 of another option.
func one(set func(Arg) error) func(Arg) error {
	return func(a Arg) error {
		if !a.On {
			return nil
		}
		a.Value = "1"
		return set(a)
	}
}

// setPerHost takes Intel's I_MPI_PERHOST, which counts beside -n.
func (p *Line) setPerHost(a Arg) error {
	kind, known := map[string]job.CountKind{"all": job.CountCPU, "allcores": job.CountCore}[a.Value]
	switch {
	case p.Spec.PerNode.Kind != job.CountUnset:
		return nil
	case known:
		p.perNodeFrom = a.From
		p.Spec.PerNode = job.Count{Kind: kind, From: a.From}
		return nil
	}
	err := p.setPPN(a)
	if err != nil {
		err = fmt.Errorf("%w, nor all, allcores", err)
	}
	return err
}

// setOversubscribe returns the setter of --oversubscribe or --nooversubscribe.
func (p *Line) setOversubscribe(allowed bool) func(Arg) error {
	mine, other := &p.oversubscribeFrom, &p.nooversubscribeFrom
	if !allowed {
		mine, other = other, mine
	}
	return func(a Arg) error {
		switch {
		case !a.On && allowed && p.FromVariable():
			p.Spec.Oversubscribe = false
			return nil
		case !a.On:
			return nil
		}
		if *mine = a.From; *other != "" && !p.FromVariable() {
			return fmt.Errorf("contradicts %s", *other)
		}
		p.Spec.Oversubscribe = allowed
		if by := &p.place().MapBy; !allowed {
			by.NoOversubscribe, by.From = true, cmp.Or(by.From, a.From)
		}
		return nil
	}
}

// setMachines takes Hydra's list of hosts, or Intel's file.
func (p *Line) setMachines(a Arg) error {
	if !strings.Contains(a.Value, "/") {
		return p.setHosts(a)
	}
	return p.setHostFile(a)
}

// setMembind takes Hydra's memory policies.
func (p *Line) setMembind(a Arg) error {
	word, _, _ := strings.Cut(a.Value, ":")
	policy, known := map[string]job.MemorySpec{
		"none": job.MemoryNone, "firsttouch": job.MemoryNone, "bind": job.MemoryBind, "interleave": job.MemoryInterleave,
	}[word]
	if !known {
		return errors.New("not one of none, firsttouch, bind, interleave")
	}
	p.Spec.Place.Memory = policy
	return nil
}

// setGPUsPerProc gives each rank a number of GPUs and hides the others, as Hydra does.
func (p *Line) setGPUsPerProc(a Arg) error {
	switch {
	case strings.EqualFold(a.Value, "auto"):
		return nil
	case a.Value == "0":
		return errors.New("to hide all GPUs use -x CUDA_VISIBLE_DEVICES=")
	}
	p.Spec.Place.Isolate = true
	p.markSet(familyIsolate)
	return p.setGPUsPerRank(a)
}

// setUniverse sets MPI_UNIVERSE_SIZE.
func (p *Line) setUniverse(a Arg) (err error) {
	switch strings.ToUpper(a.Value) {
	case "SYSTEM":
		p.Spec.Universe = job.UniverseSlots
	case "INFINITE":
		p.Spec.Universe = 0
	default:
		if p.Spec.Universe, err = ParseRanks(a.Value); err != nil {
			err = fmt.Errorf("%w, nor SYSTEM, INFINITE", err)
		}
	}
	return err
}

// interfaceVariables name a network interface to the libraries that ranks use.
var interfaceVariables = [...]string{
	"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FI_TCP_IFACE",
	"OMPI_MCA_btl_tcp_if_include",
}

func (p *Line) setInterface(a Arg) error {
	for _, name := range interfaceVariables {
		p.export(a, true, name, a.Value)
	}
	if has := p.around.HasInterface; has != nil && a.Value != "" && !has(a.Value) {
		p.Note(a.From + ": this host has no network interface of that name; ip link lists them")
	}
	return notEmpty(a)
}

// setLauncher takes Hydra's names of ways to reach other hosts.
func (p *Line) setLauncher(a Arg) error {
	switch a.Value {
	case "ssh", "fork", "user": // gorun forks ranks on this host anyway
		return nil
	case "rsh":
		p.reach.rsh = a
		return nil
	}
	manager := managerOf[a.Value]
	switch {
	case manager == "":
		return errors.New(
			"gorun reaches other hosts by ssh, rsh, slurm, lsf, sge and pbs; for another program use --ssh 'CMD ...'")
	case p.isSet(familyEngine):
		return nil
	}
	p.markSet(familyEngine)
	p.engine.wanted = optionValue[string]{manager, a.From}
	return nil
}

// managerOf maps Hydra's launchers to resource managers.
var managerOf = map[string]string{
	"slurm": "slurm", "srun": "slurm", "lsf": "lsf", "blaunch": "lsf", "sge": "sge", "qrsh": "sge", "pbs": "pbs",
	"pbsdsh": "pbs",
}

// parseRMK takes Hydra's names of resource managers.
func parseRMK(value string) (string, error) {
	if value == "user" {
		value = "none"
	}
	return parseEngine(value)
}

// setPreloadFiles sends files, as mpirun does.
func (p *Line) setPreloadFiles(a Arg) error {
	for _, path := range strings.Split(a.Value, ",") {
		if path != "" && !slices.Contains(p.Spec.Reach.Copy, path) {
			p.Spec.Reach.Copy = append(p.Spec.Reach.Copy, path)
		}
	}
	return notEmpty(a)
}
