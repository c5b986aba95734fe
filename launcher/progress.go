package launcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/remote"
)

// Progress is how far the hosts of a job are on the way to having an agent. Its methods may be
// called on any goroutine, also later.
type Progress struct {
	began time.Time

	mu    sync.Mutex
	hosts []HostProgress
}

// HostProgress is the progress of one host.
type HostProgress struct {
	Name string
	// Step is "waiting" for other hosts, of which a limited number is reached at once, "connect",
	// "authentication", "copy" …, or "ready" when the agent runs.
	Step string
	// Sent and Total count bytes of gorun's program or of files for --copy, 0 if nothing is sent.
	Sent, Total int64
	// Reached is set after login, Ready when the agent runs, Failed when it will not.
	Reached, Ready, Failed bool

	took time.Duration // until it was ready or has failed
}

// Steps in addition to those of package remote.
const (
	stepWaiting = "waiting"
	stepReady   = "ready"
)

func newProgress(list []hosts.Host) *Progress {
	p := &Progress{began: time.Now(), hosts: make([]HostProgress, len(list))}
	for i, h := range list {
		p.hosts[i].Name, p.hosts[i].Step = h.Name, stepWaiting
	}
	return p
}

// Elapsed returns the time since the start.
func (p *Progress) Elapsed() time.Duration { return time.Since(p.began) }

// Hosts returns the progress of all hosts in the job's order.
func (p *Progress) Hosts() []HostProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hosts)
}

func (p *Progress) host(number int) HostProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[number]
}

func (p *Progress) update(number int, change func(h *HostProgress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number < len(p.hosts) { // others were in quarantine at the start
		change(&p.hosts[number])
	}
}

// watch returns a context that reports the steps of reaching a host.
func (p *Progress) watch(ctx context.Context, number int) context.Context {
	return remote.WithProgress(ctx, func(now remote.Progress) {
		p.update(number, func(h *HostProgress) {
			if !h.Ready { // later steps, such as new keys, do not count
				h.Reached, h.Step, h.Sent, h.Total = now.Step >= remote.StepCopy, now.Step.String(), now.Sent, now.Total
			}
		})
	})
}

// agentArrived records that a host's agent has connected, or will be started again.
func (p *Progress) agentArrived(number int, here bool) {
	p.update(number, func(h *HostProgress) {
		h.Reached, h.Ready, h.Step = here, here, stepWaiting
		if here {
			h.Step, h.took = stepReady, time.Since(p.began)
		}
	})
}

// finished records the end of reaching a host.
func (p *Progress) finished(number int, err error) {
	p.update(number, func(h *HostProgress) {
		h.took = time.Since(p.began)
		if err != nil {
			h.Failed = true
			return
		}
		h.Reached, h.Ready, h.Step = true, true, stepReady
	})
}
