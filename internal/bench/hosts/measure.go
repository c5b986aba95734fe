package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/bench"
)

// limit is how long a launch may take.
const limit = 2 * time.Minute

// measuring is what is measured with, at the head of the hosts.
type measuring struct {
	programs    *bench.Programs
	config, ssh string // ssh_config, and a ssh that has it
	set         string // the hosts' folder
	report      *bench.Report
}

// names are the first n hosts, each with one slot.
func names(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("h%d:1", i+1)
	}
	return strings.Join(list, ",")
}

func (m *measuring) gorun(hosts int, words ...string) []string {
	return append([]string{m.programs.Gorun, "--ssh-config", m.config, "-H", names(hosts)}, words...)
}

// peers are gorun and the MPIs that are here.
func (m *measuring) peers(hosts int) []bench.Peer {
	p, n := m.programs, strconv.Itoa(hosts)
	all := []bench.Peer{{Name: "gorun", Argv: m.gorun(hosts, p.True)}}
	if p.Hydra != "" {
		argv := []string{p.Hydra, "-launcher", "ssh", "-launcher-exec", m.ssh, "-hosts", names(hosts), "-n", n, p.True}
		all = append(all, bench.Peer{Name: "hydra", Argv: argv})
	}
	if p.OpenMPI != "" {
		argv := []string{p.OpenMPI, "--allow-run-as-root", "--mca", "plm_rsh_agent", m.ssh, "-H", names(hosts), "-n", n, p.True}
		all = append(all, bench.Peer{Name: "openmpi", Argv: argv})
	}
	for i := range all {
		all[i].Environ, all[i].Limit = os.Environ(), limit
	}
	return all
}

// launches measures one number of hosts.
func (m *measuring) launches(s size) error {
	peers := m.peers(s.hosts)
	series, err := bench.Interleave(s.rounds, peers)
	if err != nil {
		return err
	}
	ours, best := series[0], fastest(series[1:])
	for _, peer := range series {
		row := []string{strconv.Itoa(s.hosts), peer.Name, strconv.Itoa(len(peer.Walls)), bench.Millis(peer.Min()), bench.Millis(peer.Median()), "", "", "", ""}
		if peer.Name != ours.Name {
			row[5], row[6] = bench.Ratio(ours.Min(), peer.Min()), bench.Ratio(ours.Median(), peer.Median())
		}
		if peer.Name == best {
			row[7], row[8] = fmt.Sprintf("≤ %g", launchRatio), string(bench.JudgeRatio(ours, peer, launchRatio))
		}
		m.report.Row(row...)
		if peer.Cut+peer.Failed > 0 {
			m.report.Note("%s on %d hosts: %d runs hung and were cut off, %d failed; both are left out", peer.Name, s.hosts, peer.Cut, peer.Failed)
		}
	}
	return m.cold(s, peers[0], ours)
}

// fastest names whose median is the least.
func fastest(series []bench.Series) string {
	name, least := "", time.Duration(0)
	for _, s := range series {
		if len(s.Walls) > 0 && (name == "" || s.Median() < least) {
			name, least = s.Name, s.Median()
		}
	}
	return name
}

// cold measures gorun with its copies gone from all hosts, each time beside a launch that has them.
func (m *measuring) cold(s size, gorun bench.Peer, warm bench.Series) error {
	empty := bench.Series{Name: "gorun, empty cache"}
	warm = bench.Series{Name: warm.Name}
	for range s.cold {
		if err := m.emptyCaches(s.hosts); err != nil {
			return err
		}
		for _, series := range []*bench.Series{&empty, &warm} { // the first fills the caches
			sample, err := bench.Time(gorun.Argv, gorun.Environ, limit)
			if err != nil {
				return err
			}
			if sample.Cut || sample.Status != 0 {
				m.report.Note("%s on %d hosts: a run failed (%d) or was cut off, and is left out", series.Name, s.hosts, sample.Status.ExitStatus())
				continue
			}
			series.Walls = append(series.Walls, sample.Wall)
		}
	}
	slices.Sort(empty.Walls)
	slices.Sort(warm.Walls)
	m.report.Row(strconv.Itoa(s.hosts), empty.Name, strconv.Itoa(len(empty.Walls)), bench.Millis(empty.Min()), bench.Millis(empty.Median()),
		bench.Ratio(warm.Min(), empty.Min()), bench.Ratio(warm.Median(), empty.Median()), fmt.Sprintf("≤ %d × warm", coldRatio), string(bench.JudgeRatio(empty, warm, coldRatio)))
	return nil
}

// emptyCaches removes gorun's copies from the hosts' homes.
func (m *measuring) emptyCaches(hosts int) error {
	for i := range hosts {
		if err := os.RemoveAll(filepath.Join(m.set, fmt.Sprintf("h%d", i+1), "home", "root", ".cache", "gorun")); err != nil {
			return err
		}
	}
	return nil
}

// idle measures what the head of a job costs whose ranks do nothing.
func (m *measuring) idle(hosts int, watched time.Duration) error {
	job, err := bench.Stand(m.gorun(hosts, m.programs.Stand), hosts, limit)
	if err != nil {
		return err
	}
	defer job.End()
	cpu, bytes, err := m.costs(job)
	if err != nil {
		return err
	}
	began := time.Now()
	<-time.After(watched) // what is measured is time
	cpuThen, bytesThen, err := m.costs(job)
	if err != nil {
		return err
	}
	took := time.Since(began)
	share := 100 * float64(cpuThen-cpu) / float64(took)
	verdict := bench.Judge(share <= idleShare, share <= idleShare)
	m.report.Note("a job on %d hosts that does nothing, %s: %.2f %% of a core at the head (target ≤ %d %%: %s), %.0f bytes/s through the head's interface, %.0f a host",
		hosts, took.Round(time.Second), share, idleShare, verdict, float64(bytesThen-bytes)/took.Seconds(), float64(bytesThen-bytes)/took.Seconds()/float64(hosts))
	return nil
}

// costs are the CPU time of a launcher and its helpers so far, and the bytes that passed the head's interface.
func (m *measuring) costs(job *bench.Standing) (cpu time.Duration, bytes int64, err error) {
	if cpu, err = job.CPU(); err != nil {
		return 0, 0, err
	}
	for _, direction := range []string{"rx_bytes", "tx_bytes"} {
		text, err := os.ReadFile("/sys/class/net/eth0/statistics/" + direction)
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		bytes += n
	}
	return cpu, bytes, nil
}
