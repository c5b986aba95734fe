package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/launcher/registry"
)

// dumpName begins the names of the files of PyTorch's flight recorders.
const dumpName = "nccl_trace_rank_"

// evidence sends what is known of the job, file by file: first what is here, last what takes long, since a node may die
// meanwhile.
func (l *monitor) evidence(ctx context.Context, h *head, send func(part any) error) {
	file := func(name string, text []byte, err string) {
		_ = send(registry.File{Name: name, Text: text, Error: printable.Text(err)}) // the client may be gone
	}
	data := func(name string, value any) {
		text, _ := json.MarshalIndent(value, "", "  ") // it has no values that JSON lacks
		file(name, append(text, '\n'), "")
	}
	p := h.plan.Load()
	data("plan.json", p.Masked())
	var tails []byte
	for _, line := range h.allTails() {
		tails = fmt.Appendf(tails, "[%d] %s\n", line.Rank, line.Text)
	}
	file("last-lines.txt", []byte(p.Masker().Replace(string(tails))), "")
	answers, silent := h.queries.ask(ctx, h, queryDumps)
	for _, a := range answers {
		for _, f := range a.body.Evidence {
			name := path.Base(printable.Text(f.Name))
			if rank, is := strings.CutPrefix(name, dumpName); is { // torchfrtrace expects PyTorch's names
				if number, err := strconv.Atoi(rank); err != nil || !h.hasRank(a.node, number) {
					continue
				}
			} else {
				name = strings.ReplaceAll(p.Nodes[a.node.number].Name, "/", "_") + "-" + name
			}
			file(name, f.Text, f.Error)
		}
	}
	for _, host := range silent {
		file(host, nil, "the host did not answer in time")
	}
	ranks := l.describeRanks(ctx, h)
	ranks.Args = plan.HideSecrets(ranks.Args)
	data("ranks.json", ranks)
	if stall := h.stall.Load(); stall != nil {
		data("store-wait.json", stall)
	}
	stacks := l.stacks(ctx, h, registry.Request{})
	file("stacks.txt", []byte(strings.Join(stacks.Lines, "\n")+"\n"), stacks.Error)
	nccl := l.nccl(ctx, h)
	file("nccl.txt", []byte(strings.Join(nccl.Lines, "\n")+"\n"), nccl.Error)
	file("", nil, "")
}
