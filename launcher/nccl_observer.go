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

// ncclObserver watches what NCCL prints in ranks on its way to the console or to log files. It does
// not change or delay the output.
type ncclObserver struct {
	head    *head
	log     *nccllog.Collector
	waiting atomic.Bool // reportLater has been called
	report  func()      // only the first call reports; others wait for it
	warned  sync.Map    // keys of warnings
}

func (v *ncclObserver) init(h *head) {
	v.head, v.log, v.report = h, nccllog.New(len(h.plan.Load().Ranks)), sync.OnceFunc(v.reportSummaries)
}

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

// Delays before a report.
const (
	settleDelay  = 300 * time.Millisecond // once ranks are connected: kinds of connections follow one another
	versionDelay = 2 * time.Second        // once a version was printed: RCCL prints it in any case
)

// reportLater schedules a report unless one is scheduled.
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
		v.waiting.Store(false) // a larger communicator is being made, and observe will be called again
	})
}

// reportSummaries reports over what ranks communicate.
func (v *ncclObserver) reportSummaries() {
	for _, s := range v.log.Summaries(v.hasNVLink) {
		if s.VersionOnly {
			v.head.settings.detail(s.Text + " (add -x NCCL_DEBUG=INFO to see over what)")
			continue
		}
		v.head.settings.detail(s.Text + " " + job.CountedRanges(s.Ranks))
	}
}

// hasNVLink reports whether a rank's node is known to have NVLink between GPUs.
func (v *ncclObserver) hasNVLink(rank int) bool {
	n := v.head.nodes[v.head.plan.Load().Ranks[rank].Node]
	return slices.ContainsFunc(n.facts.Machine.GPUs, func(gpu placement.GPU) bool {
		return slices.ContainsFunc(gpu.Links, func(link placement.Link) bool { return link.Kind == "nvlink" })
	})
}

// warn sends one notice per key.
func (v *ncclObserver) warn(key, text string) {
	if _, warned := v.warned.LoadOrStore(key, true); !warned {
		v.head.settings.notify(text)
	}
}

// checkVersions warns of ranks with different versions of NCCL.
func (v *ncclObserver) checkVersions() {
	if !v.log.Mixed() {
		return
	}
	if _, warned := v.warned.Load("versions"); warned {
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
	v.warn("versions", "ranks have different versions of NCCL, which do not work together: "+strings.Join(list, ", ")+
		"; check LD_LIBRARY_PATH and the Python environment on each host")
}

// hostsOf names the nodes of ranks, "" in a job with one.
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

// checkNetwork warns if a rank uses sockets although its node has a faster network, or another
// interface than gorun has set.
func (v *ncclObserver) checkNetwork(n *node, rank int) {
	f, ok := v.log.Facts(rank)
	if !ok || len(v.head.nodes) < 2 {
		return
	}
	if named := v.namedInterface(rank); named != "" && len(f.Interfaces) > 0 && !slices.Contains(f.Interfaces, named) {
		v.warn("interface "+n.name,
			fmt.Sprintf("NCCL uses %s on %s, not %s, which the other hosts reach it on: the program or an nccl.conf sets "+
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
		v.warn("sockets "+n.name, fmt.Sprintf("NCCL uses sockets on %s although %s is up; "+
			"add -x NCCL_NET=IB to see why, or -x NCCL_DEBUG_SUBSYS=INIT,NET to see what it found", n.name, text))
	}
}

// asksForSockets reports whether a rank's environment restricts NCCL to sockets.
func (v *ncclObserver) asksForSockets(rank int) bool {
	set := v.variable(rank, "NCCL_IB_DISABLE")
	if set != nil && set.Value != "" && set.Value != "0" {
		return true
	}
	set = v.variable(rank, "NCCL_NET")
	return set != nil && strings.EqualFold(set.Value, "Socket")
}

// portTexts describes the active ports that NCCL could use.
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

// variable returns a variable of a rank's environment, or nil.
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

// namedInterface is the interface that gorun set for NCCL in a rank; "" if gorun set none.
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

// result returns nil if nothing was observed.
func (v *ncclObserver) result() *job.NCCL {
	r := &job.NCCL{Summaries: v.log.Summaries(v.hasNVLink), Warnings: v.log.Warnings()}
	if len(r.Summaries)+len(r.Warnings) == 0 {
		return nil
	}
	return r
}
