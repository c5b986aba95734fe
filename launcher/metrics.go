package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/internal/httpserver"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/tcpstore"
)

// serveMetrics answers scrapes until the session is closed.
func (s *session) serveMetrics() error {
	addr := s.settings.Metrics
	if addr == "" || s.joined != nil || s.dryRun {
		return nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		if e, ok := errors.AsType[*net.OpError](err); ok {
			err = e.Err // without the address
		}
		text := fmt.Sprintf("serve metrics at %s: %s", addr, printable.Error(err))
		_, port, _ := net.SplitHostPort(addr)
		number, _ := strconv.Atoi(port)
		if pid, name, ok := tcpstore.Holder(number); ok {
			text += fmt.Sprintf(" by %s (pid %d)", name, pid)
		}
		hint := "name an address of this host, or none: `--metrics-listen :9400`"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "use `--metrics-listen :0` for any free port"
		}
		return &Error{Code: job.ExitLauncher, Text: printable.Text(text), Hint: hint}
	}
	report := s.settings.detail
	if strings.HasSuffix(addr, ":0") {
		report = s.settings.note
	}
	report(fmt.Sprintf("metrics: http://%s/metrics", listener.Addr()))
	s.metrics = httpserver.New(listener, s.monitor.scrape)
	return nil
}

// scrape responds to Prometheus and the like. It asks the nodes as gorun top does, and nobody in between.
func (l *monitor) scrape(ctx context.Context, path string) httpserver.Response {
	h := l.head.Load()
	switch {
	case path != "/metrics":
		return httpserver.Response{Status: "404 Not Found", Body: "see /metrics\n"}
	case h == nil:
		return httpserver.Response{Status: "503 Service Unavailable", Body: "the job has no ranks yet\n"}
	}
	select { // before, agents refuse to be asked
	case <-h.startSent:
	case <-ctx.Done():
		return httpserver.Response{}
	}
	return httpserver.Response{
		Status: "200 OK", Type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
		Body: l.measure(ctx, h).String(),
	}
}

// progressSeen is when a scrape saw progress last.
type progressSeen struct {
	head  *head // of the attempt
	nodes map[*node]int64
	at    time.Time
}

func (p *progressSeen) update(h *head, answers []answer[wire.Used]) time.Duration {
	if p.head != h {
		*p = progressSeen{head: h, nodes: map[*node]int64{}, at: time.Now()}
	}
	for _, a := range answers {
		if p.nodes[a.node] != a.body.Progress {
			p.nodes[a.node], p.at = a.body.Progress, time.Now()
		}
	}
	return time.Since(p.at)
}

// metrics are samples in OpenMetrics' text format by the names of their metrics.
type metrics map[string][]byte

// described are all metrics in their order. Kinds and units follow from the names, as OpenMetrics wants them.
var described = [...]struct{ name, help string }{
	{"gorun_job_info", "The job, and the version of gorun that runs it."},
	{"gorun_restarts_total", "How often all ranks were started again."},
	{"gorun_goodput_ratio", "Share of the time so far that led to progress."},
	{"gorun_no_progress_seconds", "Time without output of ranks or use of their store, as far as scrapes have seen."},
	{"gorun_rank_up", "1 while the rank runs."},
	{"gorun_rank_cpu_seconds_total", "CPU time of the rank's processes."},
	{"gorun_rank_memory_bytes", "Resident memory of the rank's processes."},
	{"gorun_rank_output_bytes_total", "What the rank has printed."},
	{"gorun_node_up", "1 if the node answered this scrape."},
	{"gorun_node_network_bytes_total", "What passed through the host's network interfaces, with loopback and InfiniBand."},
	{"gorun_gpu_utilization_ratio", "Share of time in which a kernel ran."},
	{"gorun_gpu_memory_used_bytes", "Memory in use, also by other jobs."},
	{"gorun_gpu_power_watts", "Power draw."},
	{"gorun_gpu_temperature_celsius", "Temperature of the die."},
	{"gorun_gpu_throttled", "1 while heat or a lack of power lowers the clocks."},
}

func (l *monitor) measure(ctx context.Context, h *head) metrics {
	j, answers := l.describeRanks(ctx, h, queryMetrics)
	l.mu.Lock()
	clock, quiet := l.clock, l.seen.update(h, answers)
	l.mu.Unlock()
	m, paused := metrics{}, l.paused.Load()
	m.add("gorun_job_info", labels("id", j.ID, "version", version.String()), 1)
	m.add("gorun_restarts_total", "", float64(j.Attempt))
	m.add("gorun_goodput_ratio", "", clock.sofar().Share)
	m.add("gorun_no_progress_seconds", "", quiet.Seconds())
	for _, r := range j.Ranks {
		rank := labels("rank", strconv.Itoa(r.Rank), "host", r.Host)
		m.addFlag("gorun_rank_up", rank, r.PID != 0 && r.Code == nil && r.Signal == "" && !paused)
		addKnown(m, "gorun_rank_cpu_seconds_total", rank, r.CPU, 1)
		addKnown(m, "gorun_rank_memory_bytes", rank, r.Memory, 1)
		addKnown(m, "gorun_rank_output_bytes_total", rank, r.Output, 1)
	}
	if !paused { // else nodes have nothing to answer
		m.addNodes(h, answers)
	}
	return m
}

func (m metrics) addNodes(h *head, answers []answer[wire.Used]) {
	p := h.plan.Load()
	for i, n := range h.nodes {
		place := []string{"node", strconv.Itoa(i), "host", p.Nodes[i].Name}
		at := slices.IndexFunc(answers, func(a answer[wire.Used]) bool { return a.node == n })
		m.addFlag("gorun_node_up", labels(place...), at >= 0)
		if at < 0 {
			continue
		}
		m.add("gorun_node_network_bytes_total", labels(place...), float64(answers[at].body.Network))
		for _, g := range answers[at].body.GPUs {
			gpu := labels(append(place, "gpu", g.PCI)...)
			addKnown(m, "gorun_gpu_utilization_ratio", gpu, g.Busy, 100)
			addKnown(m, "gorun_gpu_memory_used_bytes", gpu, g.Memory, 1)
			addKnown(m, "gorun_gpu_power_watts", gpu, g.Power, 1000)
			addKnown(m, "gorun_gpu_temperature_celsius", gpu, g.Temperature, 1)
			m.addFlag("gorun_gpu_throttled", gpu, g.Slowed)
		}
	}
}

func (m metrics) add(name, labels string, value float64) {
	m[name] = append(m[name], name+labels+" "+strconv.FormatFloat(value, 'f', -1, 64)+"\n"...)
}

func (m metrics) addFlag(name, labels string, on bool) {
	value := 0.0
	if on {
		value = 1
	}
	m.add(name, labels, value)
}

// addKnown adds a number of units that are parts of those in the name; nil is not known.
func addKnown[N int | int64 | float64](m metrics, name, labels string, n *N, parts float64) {
	if n != nil {
		m.add(name, labels, float64(*n)/parts)
	}
}

// labels writes pairs of a name and a value. Control bytes are made visible.
func labels(pairs ...string) string {
	text, separator := "", "{"
	for pair := range slices.Chunk(pairs, 2) {
		value := strings.ReplaceAll(strings.ReplaceAll(printable.Text(pair[1]), `\`, `\\`), `"`, `\"`)
		text, separator = text+separator+pair[0]+`="`+value+`"`, ","
	}
	return text + "}"
}

func (m metrics) String() string {
	var b strings.Builder
	for _, d := range described {
		if m[d.name] == nil {
			continue
		}
		family, kind := d.name, "gauge"
		if name, counts := strings.CutSuffix(d.name, "_total"); counts {
			family, kind = name, "counter"
		}
		fmt.Fprintf(&b, "# TYPE %s %s\n", family, kind)
		switch unit := family[strings.LastIndexByte(family, '_')+1:]; unit {
		case "seconds", "bytes", "ratio", "watts", "celsius":
			fmt.Fprintf(&b, "# UNIT %s %s\n", family, unit)
		}
		fmt.Fprintf(&b, "# HELP %s %s\n%s", family, d.help, m[d.name])
	}
	return b.String() + "# EOF\n"
}
