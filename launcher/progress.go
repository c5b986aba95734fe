package launcher

import (
	"context"
	"sync"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/remote"
)

// Progress is how far the hosts of a job are on the way to having an agent. Its methods
// may be called on any goroutine, also when the hosts are reached.
type Progress struct {
	began time.Time

	mu    sync.Mutex
	hosts []hostProgress
}

// HostProgress is how far one host is.
type HostProgress struct {
	Name string
	// Step is what is being done: "waiting" for others, of which only so many are
	// reached at once, "connect", "authentication", "copy" …; "ready" when its agent runs.
	Step string
	// Sent and Total are bytes of gorun's program or of the files of --copy, 0 where nothing is sent.
	Sent, Total int64
	// Reached says that somebody is logged in there, Ready that its agent runs, Failed
	// that it will not.
	Reached, Ready, Failed bool
}

// Steps of a host beside those of package remote.
const (
	stepWaiting = "waiting"
	stepReady   = "ready"
)

type hostProgress struct {
	HostProgress
	took time.Duration
}

// WithProgress has begin called when hosts are about to be reached. The function that it
// returns is called when that is over, before anything is said about it; meanwhile p
// tells how far it is. Nothing is called for a job on this host alone.
func WithProgress(begin func(p *Progress) (end func())) Option {
	return func(s *settings) { s.progress = begin }
}

func newProgress(list []hosts.Host) *Progress {
	p := &Progress{began: time.Now(), hosts: make([]hostProgress, len(list))}
	for i, h := range list {
		p.hosts[i].Name, p.hosts[i].Step = h.Name, stepWaiting
	}
	return p
}

// Elapsed is the time since the beginning.
func (p *Progress) Elapsed() time.Duration { return time.Since(p.began) }

// Hosts are all hosts in the job's order.
func (p *Progress) Hosts() []HostProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]HostProgress, len(p.hosts))
	for i, h := range p.hosts {
		list[i] = h.HostProgress
	}
	return list
}

func (p *Progress) host(number int) hostProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[number]
}

func (p *Progress) update(number int, change func(h *hostProgress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.hosts[number])
}

// watched has the steps of a host noted.
func (p *Progress) watch(ctx context.Context, number int) context.Context {
	return remote.WithProgress(ctx, func(now remote.Progress) {
		p.update(number, func(h *hostProgress) {
			if !h.Ready { // keys are renewed later, too
				h.Reached, h.Step, h.Sent, h.Total = now.Step >= remote.StepCopy, now.Step.String(), now.Sent, now.Total
			}
		})
	})
}

// came notes that a host's agent has come to its head, or has to come again.
func (p *Progress) agentArrived(number int, here bool) {
	p.update(number, func(h *hostProgress) {
		h.Reached, h.Ready, h.Step = here, here, stepWaiting
		if here {
			h.Step, h.took = stepReady, time.Since(p.began)
		}
	})
}

// ended notes how reaching a host has ended.
func (p *Progress) finished(number int, err error) {
	p.update(number, func(h *hostProgress) {
		h.took = time.Since(p.began)
		if err != nil {
			h.Failed = true
			return
		}
		h.Reached, h.Ready, h.Step = true, true, stepReady
	})
}
