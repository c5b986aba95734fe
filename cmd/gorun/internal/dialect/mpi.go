package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/job"
	"gorun/placement"
)

// mpiGiven is what options of mpirun and mpiexec said that counts only together with
// something else.
type mpiGiven struct {
	defaultHosts arg // --default-hostfile
	nolocal      arg
	noOver, over arg    // of --nooversubscribe and --oversubscribe
	perNode      arg    // -ppn and its like
	bare         arg    // -genvnone and its like
	whole        arg    // -envall
	path         string // -gpath
	prefixes     []arg  // --prefix of each program
	preload      bool
	threads      arg // --use-hwthread-cpus and its like
	sshArgs      struct {
		words []string
		from  string
	}
	envLists     []environmentList
	envDelimiter string
	moreHosts    bool // than the lists of programs name, as a resource manager gave them
	rsh          arg  // a launcher that is rsh
	distDevice   string
	cpus         placement.CPUSet // --cpu-list
	cpusFrom     string
	ordered      arg      // --bind-to cpu-list
	listed       bool     // other hosts get the listed variables alone
	idle         []string // options of GroupAccepted, and why they have nothing to do
}

// nothing is the setter of options that ask for what happens anyway.
func nothing(*parser, arg) error { return nil }

// keep keeps a flag that was switched on.
func keep(into *arg, a arg) error {
	if a.on {
		*into = a
	}
	return nil
}

// noteIdle says under -v of options that had nothing to do why that is so.
func (p *parser) noteIdle() {
	for _, text := range p.mpi.idle {
		p.remark(text)
	}
}

// setPPN takes ranks per node: with a number of ranks they are a limit, as they are to
// every mpirun.
func (p *parser) setPPN(a arg) error {
	n, err := parseRanks(a.value)
	if err != nil {
		return err
	}
	return p.ranksPerNode(a, n)
}

func (p *parser) setPerNodeOne(a arg) error {
	if !a.on {
		return nil
	}
	return p.ranksPerNode(a, 1)
}

func (p *parser) ranksPerNode(a arg, n int) error {
	spec := &p.inv.Spec
	if was := spec.PerNode; was.Kind != job.CountUnset && (was.Kind != job.CountFixed || was.N != n) {
		return fmt.Errorf("contradicts %s", was.From)
	}
	p.mpi.perNode = a
	spec.PerNode = job.Count{Kind: job.CountFixed, N: n, From: a.from}
	return nil
}

// setOversubscribe takes both of a pair that excludes itself.
func (p *parser) setOversubscribe(a arg, allowed bool) error {
	if !a.on {
		if allowed && p.level != levelFlags { // a variable that says no
			p.inv.Spec.Oversubscribe = false
		}
		return nil
	}
	mine, other := &p.mpi.over, p.mpi.noOver
	if !allowed {
		mine, other = &p.mpi.noOver, p.mpi.over
	}
	if *mine = a; other.from != "" && p.level == levelFlags {
		return fmt.Errorf("contradicts %s", other.from)
	}
	p.inv.Spec.Oversubscribe = allowed
	if place := p.place(); !allowed {
		place.MapBy.NoOversubscribe = true
		if place.MapBy.From == "" {
			place.MapBy.From = a.from
		}
	}
	return nil
}

// setMachines takes Hydra's list of hosts, or Intel's file of them.
func (p *parser) setMachines(a arg) error {
	if !strings.Contains(a.value, "/") {
		return p.setHosts(a)
	}
	return p.setHostFile(a)
}

// setMembind takes Hydra's words for the policy of memory.
func (p *parser) setMembind(a arg) error {
	word, _, _ := strings.Cut(a.value, ":")
	policy, known := map[string]job.MemoryWish{
		"none": job.MemoryNone, "firsttouch": job.MemoryNone, "bind": job.MemoryBind, "interleave": job.MemoryInterleave,
	}[word]
	if !known {
		return errors.New("not one of none, firsttouch, bind, interleave")
	}
	p.inv.Spec.Place.Memory = policy
	return nil
}

// setGPUsPerProc has each rank see so many GPUs alone, as Hydra does.
func (p *parser) setGPUsPerProc(a arg) error {
	if strings.EqualFold(a.value, "auto") {
		return nil
	}
	if a.value == "0" {
		return errors.New("to hide all GPUs use -x CUDA_VISIBLE_DEVICES=")
	}
	p.inv.Spec.Place.Isolate = true
	p.answers(familyIsolate)
	return parseEach(&p.place().GPUsPerRank, a)
}

// setUniverse takes MPI_UNIVERSE_SIZE.
func (p *parser) setUniverse(a arg) error {
	switch strings.ToUpper(a.value) {
	case "SYSTEM":
		p.inv.Spec.Universe = job.UniverseSlots
		return nil
	case "INFINITE":
		p.inv.Spec.Universe = 0
		return nil
	}
	n, err := parseRanks(a.value)
	if err != nil {
		return fmt.Errorf("%w, nor SYSTEM, INFINITE", err)
	}
	p.inv.Spec.Universe = n
	return nil
}

// interfaceVariables are by which the libraries that ranks talk through learn of their
// network interface.
var interfaceVariables = [...]string{
	"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FI_TCP_IFACE",
	"OMPI_MCA_btl_tcp_if_include",
}

func (p *parser) setInterface(a arg) error {
	for _, name := range interfaceVariables {
		p.exportAlways(a, name, a.value)
	}
	if has := p.around.HasInterface; has != nil && a.value != "" && !has(a.value) {
		p.note(a.from + ": this host has no network interface of that name; ip link lists them")
	}
	return text(new(string), a)
}

// setLauncher takes Hydra's names of ways to other hosts.
func (p *parser) setLauncher(a arg) error {
	switch a.value {
	case "ssh", "fork", "user": // fork is how ranks of this host come, whatever the others do
		return nil
	case "rsh":
		p.mpi.rsh = a
		return nil
	case "slurm", "srun", "lsf", "blaunch", "sge", "qrsh", "pbs", "pbsdsh":
		if p.answered(familyEngine) {
			return nil
		}
		p.answers(familyEngine)
		return p.setEngine(arg{value: managerOf[a.value], from: a.from})
	}
	return errors.New(
		"gorun reaches other hosts by ssh, rsh, slurm, lsf, sge and pbs; for another program use --ssh 'CMD ...'")
}

// managerOf are the resource managers of Hydra's launchers.
var managerOf = map[string]string{
	"slurm": "slurm", "srun": "slurm", "lsf": "lsf", "blaunch": "lsf", "sge": "sge", "qrsh": "sge", "pbs": "pbs",
	"pbsdsh": "pbs",
}

// setRMK takes Hydra's names of resource managers.
func (p *parser) setRMK(a arg) error {
	if a.value == "user" {
		a.value = "none"
	}
	return p.setEngine(a)
}

// setPreloadFiles sends files, as mpirun does.
func (p *parser) setPreloadFiles(a arg) error {
	if a.value == "" {
		return errors.New("the value is empty")
	}
	for _, path := range strings.Split(a.value, ",") {
		if path != "" && !slices.Contains(p.inv.Spec.Reach.Copy, path) {
			p.inv.Spec.Reach.Copy = append(p.inv.Spec.Reach.Copy, path)
		}
	}
	return nil
}
