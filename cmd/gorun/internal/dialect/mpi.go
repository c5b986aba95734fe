package dialect

import (
	"cmp"
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
	defaultHosts Arg // --default-hostfile
	nolocal      Arg
	noOver, over Arg    // of --nooversubscribe and --oversubscribe
	perNode      Arg    // -ppn and its like
	bare         Arg    // -genvnone and its like
	whole        Arg    // -envall
	path         string // -gpath
	preload      bool
	parameters   []Option // of Open MPI's launcher, once they are looked for
	threads      Arg      // --use-hwthread-cpus and its like
	sshArgs      struct {
		words []string
		from  string
	}
	envLists     []environmentList
	envDelimiter string
	moreHosts    bool // than the lists of programs name, as a resource manager gave them
	rsh          Arg  // a launcher that is rsh
	distDevice   string
	cpus         placement.CPUSet // --cpu-list
	cpusFrom     string
	ordered      Arg      // --bind-to cpu-list
	listed       bool     // other hosts get the listed variables alone
	idle         []string // options of GroupAccepted, and why they have nothing to do
}

// noteIdle says under -v of options that had nothing to do why that is so.
func (p *Line) noteIdle() {
	for _, text := range p.mpi.idle {
		p.remark(text)
	}
}

// setPPN takes ranks per node: with a number of ranks they are a limit, as they are to
// every mpirun.
func (p *Line) setPPN(a Arg) error {
	n, err := ParseRanks(a.Value)
	if err != nil {
		return err
	}
	return p.ranksPerNode(a, n)
}

func (p *Line) setPerNodeOne(a Arg) error {
	if !a.On {
		return nil
	}
	return p.ranksPerNode(a, 1)
}

func (p *Line) ranksPerNode(a Arg, n int) error {
	spec := &p.Spec
	if was := spec.PerNode; was.Kind != job.CountUnset && (was.Kind != job.CountFixed || was.N != n) {
		return fmt.Errorf("contradicts %s", was.From)
	}
	p.mpi.perNode = a
	spec.PerNode = job.Count{Kind: job.CountFixed, N: n, From: a.From}
	return nil
}

// setOversubscribe takes both of a pair that excludes itself.
func (p *Line) setOversubscribe(allowed bool) func(Arg) error {
	mine, other := &p.mpi.over, &p.mpi.noOver
	if !allowed {
		mine, other = other, mine
	}
	return func(a Arg) error {
		if !a.On {
			if allowed && p.level != levelFlags { // a variable that says no
				p.Spec.Oversubscribe = false
			}
			return nil
		}
		if *mine = a; other.From != "" && p.level == levelFlags {
			return fmt.Errorf("contradicts %s", other.From)
		}
		p.Spec.Oversubscribe = allowed
		if by := &p.place().MapBy; !allowed {
			by.NoOversubscribe, by.From = true, cmp.Or(by.From, a.From)
		}
		return nil
	}
}

// setMachines takes Hydra's list of hosts, or Intel's file of them.
func (p *Line) setMachines(a Arg) error {
	if !strings.Contains(a.Value, "/") {
		return p.setHosts(a)
	}
	return p.setHostFile(a)
}

// setMembind takes Hydra's words for the policy of memory.
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

// setGPUsPerProc has each rank see so many GPUs alone, as Hydra does.
func (p *Line) setGPUsPerProc(a Arg) error {
	if strings.EqualFold(a.Value, "auto") {
		return nil
	}
	if a.Value == "0" {
		return errors.New("to hide all GPUs use -x CUDA_VISIBLE_DEVICES=")
	}
	p.Spec.Place.Isolate = true
	p.answers(familyIsolate)
	return parseEach(&p.place().GPUsPerRank, a)
}

// setUniverse takes MPI_UNIVERSE_SIZE.
func (p *Line) setUniverse(a Arg) error {
	switch strings.ToUpper(a.Value) {
	case "SYSTEM":
		p.Spec.Universe = job.UniverseSlots
		return nil
	case "INFINITE":
		p.Spec.Universe = 0
		return nil
	}
	n, err := ParseRanks(a.Value)
	if err != nil {
		return fmt.Errorf("%w, nor SYSTEM, INFINITE", err)
	}
	p.Spec.Universe = n
	return nil
}

// interfaceVariables are by which the libraries that ranks talk through learn of their
// network interface.
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
	return text(new(string), a)
}

// setLauncher takes Hydra's names of ways to other hosts.
func (p *Line) setLauncher(a Arg) error {
	switch a.Value {
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
		return p.setEngine(Arg{Value: managerOf[a.Value], From: a.From})
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
func (p *Line) setRMK(a Arg) error {
	if a.Value == "user" {
		a.Value = "none"
	}
	return p.setEngine(a)
}

// setPreloadFiles sends files, as mpirun does.
func (p *Line) setPreloadFiles(a Arg) error {
	if a.Value == "" {
		return errors.New("the value is empty")
	}
	for _, path := range strings.Split(a.Value, ",") {
		if path != "" && !slices.Contains(p.Spec.Reach.Copy, path) {
			p.Spec.Reach.Copy = append(p.Spec.Reach.Copy, path)
		}
	}
	return nil
}
