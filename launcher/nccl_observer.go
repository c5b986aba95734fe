package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/nccllog"
	"gorun/launcher/job"
	"gorun/placement"
)

// ncclVoice listens to what NCCL prints in ranks. It sees what passes through this process on its way to the console or
// to log files; nothing of it is changed, held back or left out by that.
type ncclObserver struct {
	head    *head
	log     *nccllog.Collector
	waiting atomic.Bool // to tell in what way ranks communicate
	report  func()      // tells it, once; who comes second waits until all is told: the end of the job does
	warned  sync.Map    // what was warned of
}

func (v *ncclObserver) init(h *head) {
	v.head, v.log, v.report = h, nccllog.New(len(h.plan.Load().Ranks)), sync.OnceFunc(v.reportSummaries)
}

// heard takes what a rank of a node printed.
func (v *ncclObserver) observe(n *node, rank, stream int, p []byte) {
	if !v.log.Write(rank, stream, p) {
		return
	}
	v.checkVersions()
	v.checkNetwork(n, rank)
	switch ready, alone := v.log.Ready(); {
	case ready:
		v.reportLater(settleDelay)
	case alone:
		v.reportLater(versionDelay)
	}
}

// How long it is waited for more.
const (
	settleDelay  = 300 * time.Millisecond // when ranks are connected: one kind of connection comes after the other
	versionDelay = 2 * time.Second        // when a version came: RCCL begins with it in any case
)

// tellLater says what is known after a while, unless that is under way.
func (v *ncclObserver) reportLater(after time.Duration) {
	if v.waiting.Swap(true) {
		return
	}
	v.head.mu.Lock()
	defer v.head.mu.Unlock()
	v.head.arm(after, func() {
		if ready, alone := v.log.Ready(); ready || alone {
			v.report()
			return
		}
		v.waiting.Store(false) // a larger communicator is being made: what it is said of comes again
	})
}

// tellSummaries says in what way ranks communicate.
func (v *ncclObserver) reportSummaries() {
	for _, s := range v.log.Summaries(v.hasNVLink) {
		if s.VersionOnly {
			v.head.settings.detail(s.Text + " (-x NCCL_DEBUG=INFO has it say over what)")
			continue
		}
		v.head.settings.detail(s.Text + " " + job.CountedRanges(s.Ranks))
	}
}

// linked reports whether a rank's node is known to have GPUs with NVLink between them.
func (v *ncclObserver) hasNVLink(rank int) bool {
	n := v.head.nodes[v.head.plan.Load().Ranks[rank].Node]
	return slices.ContainsFunc(n.facts.Machine.GPUs, func(gpu placement.GPU) bool {
		return slices.ContainsFunc(gpu.Links, func(link placement.Link) bool { return link.Kind == "nvlink" })
	})
}

// warn tells something once.
func (v *ncclObserver) warn(key, text string) {
	if _, said := v.warned.LoadOrStore(key, true); !said {
		v.head.settings.notify(text)
	}
}

// compareVersions remarks on ranks with different versions, which cannot talk to each other.
func (v *ncclObserver) checkVersions() {
	if !v.log.Mixed() {
		return
	}
	if _, said := v.warned.Load("versions"); said {
		return
	}
	versions := v.log.Versions()
	if len(versions) < 2 {
		return
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		list = append(list, fmt.Sprintf("%s in %s%s", name, job.CountedRanges(versions[name]), v.hostsOf(versions[name])))
	}
	v.warn("versions", "ranks have different versions of NCCL, which cannot work together: "+strings.Join(list, ", ")+
		"; LD_LIBRARY_PATH or the Python environment differs between them")
}

// onHosts names the nodes of ranks, where the job has several.
func (v *ncclObserver) hostsOf(ranks []int) string {
	if len(v.head.nodes) < 2 {
		return ""
	}
	p := v.head.plan.Load()
	var hosts []string
	for _, rank := range ranks {
		if name := p.Nodes[p.Ranks[rank].Node].Name; !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	return " (" + job.HostRanges(hosts) + ")"
}

// lookAtNetwork judges the network that a rank uses: sockets are slow where there is better, and where gorun named an
// interface another one is a mistake.
func (v *ncclObserver) checkNetwork(n *node, rank int) {
	f, ok := v.log.Facts(rank)
	if !ok || len(v.head.nodes) < 2 {
		return
	}
	if named := v.namedInterface(rank); named != "" && len(f.Interfaces) > 0 && !slices.Contains(f.Interfaces, named) {
		v.warn("interface "+n.name,
			fmt.Sprintf("NCCL uses %s on %s, not %s by which the other hosts reach it: the program or an nccl.conf sets "+
				"NCCL_SOCKET_IFNAME",
				strings.Join(f.Interfaces[:min(len(f.Interfaces), 4)], ", "), n.name, named))
	}
	if f.Network != "Socket" {
		return
	}
	if ports := portTexts(n.facts.RDMA); len(ports) > 0 && !v.asksForSockets(rank) {
		most := min(len(ports), 4)
		text := strings.Join(ports[:most], ", ")
		if rest := len(ports) - most; rest > 0 {
			text += fmt.Sprintf(" and %d more", rest)
		}
		v.warn("sockets "+n.name, fmt.Sprintf("NCCL communicates by sockets on %s although %s is up there; -x NCCL_NET=IB "+
			"has it fail and say why, -x NCCL_DEBUG_SUBSYS=INIT,NET what it found", n.name, text))
	}
}

// asksForSockets reports whether a rank's environment has NCCL use nothing else.
func (v *ncclObserver) asksForSockets(rank int) bool {
	set := v.variable(rank, "NCCL_IB_DISABLE")
	if set != nil && set.Value != "" && set.Value != "0" {
		return true
	}
	set = v.variable(rank, "NCCL_NET")
	return set != nil && strings.EqualFold(set.Value, "Socket")
}

// portTexts describe the ports by which NCCL itself could communicate.
func portTexts(ports []placement.NIC) (texts []string) {
	for _, p := range ports {
		kind := map[placement.NICKind]string{placement.InfiniBand: "InfiniBand", placement.RoCE: "RoCE"}[p.Kind]
		if kind == "" || !p.Up {
			continue
		}
		if p.Gbps > 0 {
			kind += fmt.Sprintf(", %g Gb/s", p.Gbps)
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", printable.Text(p.Name), kind))
	}
	return texts
}

// variable is one of a rank's environment, nil: the rank has none of that name.
func (v *ncclObserver) variable(rank int, name string) *plan.Variable {
	p := v.head.plan.Load()
	if rank < 0 || rank >= len(p.Ranks) {
		return nil
	}
	for _, list := range [][]plan.Variable{p.Ranks[rank].Env, p.CommonOf(p.Ranks[rank].Node)} {
		if i := slices.IndexFunc(list, func(x plan.Variable) bool { return x.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// interfaceNamed is the network interface that gorun named to NCCL in a rank; "" is none, or the user did.
func (v *ncclObserver) namedInterface(rank int) string {
	set := v.variable(rank, "NCCL_SOCKET_IFNAME")
	if set == nil || set.Origin != plan.Gorun {
		return ""
	}
	name, exact := strings.CutPrefix(set.Value, "=")
	if !exact || strings.Contains(name, ",") {
		return ""
	}
	return name
}

// result is what was heard; nil: nothing.
func (v *ncclObserver) result() *job.NCCL {
	r := &job.NCCL{Summaries: v.log.Summaries(v.hasNVLink), Warnings: v.log.Warnings()}
	if len(r.Summaries)+len(r.Warnings) == 0 {
		return nil
	}
	return r
}
