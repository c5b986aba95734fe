package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// evidence is what an attempt collects of its failures, for WithEvidence.
type evidence struct {
	collected atomic.Bool // of the end of the attempt
	mu        sync.Mutex
	begun     []chan struct{} // collections, each closed when it has ended; guarded by mu
}

// evidenceLimit is how long the end of an attempt waits for a collection.
const evidenceLimit = 2 * time.Second

// collectFailure collects evidence when the first rank fails, a node is lost or time is up. The nodes are asked at
// once, before ranks are stopped.
func (h *head) collectFailure() {
	select {
	case <-h.over: // a link may be lost after a good end
		return
	default:
	}
	if h.settings.Evidence == nil || h.evidence.collected.Swap(true) {
		return
	}
	answers := h.queries.begin(h, queryEvidence)
	h.collect(func(c collection) {
		list, silent := answers(context.Background()) // meanwhile the failed rank's last lines come
		c.known()
		c.nodes(list, silent)
		var ranks []spec.Activity
		for _, u := range h.usages(list) {
			ranks = append(ranks, u.Activity)
		}
		c.lines("stacks.txt", job.DescribeActivity(ranks), "")
	})
}

// collectHang collects evidence before a job that hangs is stopped.
func (h *head) collectHang(hang *job.Hang) {
	if h.settings.Evidence == nil {
		return
	}
	h.evidence.collected.Store(h.spec.OnHang != job.HangReport)
	list, silent := h.queries.ask(context.Background(), h, queryDumps)
	status, known := h.rasStatus(h.ras)
	h.collect(func(c collection) {
		c.known()
		c.nodes(list, silent)
		c.lines("stacks.txt", job.DescribeActivity(hang.Ranks), "")
		c.lines("nccl.txt", hang.NCCL, "")
		if known {
			c.data("nccl.json", status)
		}
	})
}

// collectSuspicion collects evidence on a job that may hang, while it runs on.
func (h *head) collectSuspicion() {
	if h.settings.Evidence != nil {
		h.collect(func(c collection) { c.all(context.Background()) })
	}
}

// collect has evidence collected in the background.
func (h *head) collect(gather func(collection)) {
	ended := make(chan struct{})
	h.evidence.mu.Lock()
	defer h.evidence.mu.Unlock()
	h.evidence.begun = append(h.evidence.begun, ended)
	go func() {
		defer close(ended)
		if add := h.settings.Evidence(); add != nil {
			gather(collection{h, add})
			add(registry.File{})
		}
	}()
}

// awaitEvidence gives collections the time to end.
func (h *head) awaitEvidence() {
	h.evidence.mu.Lock()
	begun := h.evidence.begun
	h.evidence.mu.Unlock()
	if begun == nil {
		return
	}
	limit := time.After(evidenceLimit)
	for _, ended := range begun {
		select {
		case <-ended:
		case <-limit:
			return
		}
	}
}

// collection is evidence that is being collected, file by file.
type collection struct {
	*head
	add func(registry.File)
}

func (c collection) file(name string, text []byte, err string) {
	c.add(registry.File{Name: name, Text: text, Error: printable.Text(err)})
}

// lines adds a text that may have what ranks printed.
func (c collection) lines(name string, lines []string, err string) {
	c.file(name, []byte(c.plan.Load().Masker().Replace(strings.Join(append(lines, ""), "\n"))), err)
}

func (c collection) data(name string, value any) {
	text, _ := json.MarshalIndent(value, "", "  ") // it has no values that JSON lacks
	c.file(name, append(text, '\n'), "")
}

// all collects everything: first what is here, last what takes long, since a node may die meanwhile.
func (c collection) all(ctx context.Context) {
	c.known()
	c.nodes(c.queries.ask(ctx, c.head, queryDumps))
	l := c.monitor
	stacks := l.stacks(ctx, c.head, registry.Request{})
	c.lines("stacks.txt", stacks.Lines, stacks.Error)
	if l == nil {
		return
	}
	ranks, _ := l.describeRanks(ctx, c.head, queryUsage)
	ranks.Args = plan.HideSecrets(ranks.Args)
	c.data("ranks.json", ranks)
	nccl := l.nccl(ctx, c.head)
	c.lines("nccl.txt", nccl.Lines, nccl.Error)
	if nccl.Status != nil {
		c.data("nccl.json", nccl.Status)
	}
}

// known collects what is known here.
func (c collection) known() {
	c.data("plan.json", c.plan.Load().Masked())
	var lines []string
	for _, line := range c.allTails() {
		lines = append(lines, fmt.Sprintf("[%d] %s", line.Rank, line.Text))
	}
	c.lines("last-lines.txt", lines, "")
	if stall := c.stall.Load(); stall != nil {
		c.data("store-wait.json", stall)
	}
}

// nodes collects the nodes' answers.
func (c collection) nodes(answers []answer[wire.Used], silent []string) {
	for _, a := range answers {
		for _, f := range a.body.Evidence {
			name := path.Base(printable.Text(f.Name))
			if rank, is := strings.CutPrefix(name, wire.DumpName); is { // torchfrtrace expects PyTorch's names
				if number, err := strconv.Atoi(rank); err != nil || !c.hasRank(a.node, number) {
					continue
				}
			} else {
				name = strings.ReplaceAll(c.plan.Load().Nodes[slices.Index(c.head.nodes, a.node)].Name, "/", "_") + "-" + name
			}
			c.file(name, f.Text, f.Error)
		}
	}
	for _, host := range silent {
		c.file(host, nil, "the host did not answer in time")
	}
}
