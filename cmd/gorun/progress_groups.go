package main

import (
	"cmp"
	"fmt"
	"slices"

	"gorun/launcher"
)

// progressGroup is hosts at the same step.
type progressGroup struct {
	names       []string
	text        string
	failed      bool
	sent, total int64
}

// stepWords say what is going on at a step, where its own name does not.
var stepWords = map[string]string{
	"waiting": "not begun", "configuration": "reading ~/.ssh/config", "resolve": "looking up", "connect": "connecting",
	"copy": "copying gorun", "start": "starting gorun",
}

// groupsOf are the hosts that are not ready: those that failed, then the fewest first,
// which are the ones to look at where the line is too short for all.
func groupsOf(list []launcher.HostProgress) []*progressGroup {
	var groups []*progressGroup
	for _, h := range list {
		if h.Ready {
			continue
		}
		text := stepWords[h.Step]
		if text == "" {
			text = h.Step
		}
		if h.Failed {
			text = "failed (" + h.Step + ")"
		}
		at := slices.IndexFunc(groups, func(g *progressGroup) bool { return g.text == text })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &progressGroup{text: text, failed: h.Failed})
		}
		g := groups[at]
		g.names = append(g.names, h.Name)
		g.sent, g.total = g.sent+h.Sent, g.total+h.Total
	}
	slices.SortStableFunc(groups, func(a, b *progressGroup) int {
		if a.failed != b.failed {
			if a.failed {
				return -1
			}
			return 1
		}
		return cmp.Compare(len(a.names), len(b.names))
	})
	for _, g := range groups {
		if g.total > 0 {
			g.text += fmt.Sprintf(" %d %%", 100*g.sent/g.total)
		}
	}
	return groups
}
