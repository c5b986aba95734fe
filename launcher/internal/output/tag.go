package output

import (
	"fmt"
	"strconv"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
)

// Label says which lines begin with a tag of their rank.
type Label int

const (
	LabelAuto   Label = iota // on a terminal with more than one rank; tee'd streams everywhere, as torchrun does
	LabelAlways              // everywhere
	LabelNever               // nowhere
)

// RankInfo has the properties of a rank that tags may show.
type RankInfo struct {
	Rank      int
	LocalRank int
	Host      string
	Role      string       // torchrun's --role
	Tee       spec.Streams // its tee'd streams
	Node      int          // its number
	World     int          // 0 for the ranks that the job began with
}

// tagColors are the SGR codes of ranks. Neighbours differ, and red is for the mark of stderr.
var tagColors = [...]string{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"}

// tagger makes the tags of one destination.
type tagger struct {
	Config
	digits   int // of the highest rank
	several  bool
	terminal bool
	color    bool
}

// tag returns what a rank's lines begin with; nil without a label. Without a pattern it is "[3] " for ordinary
// streams, and for tee'd ones the template or torchrun's "[default3]:".
func (t *tagger) tag(r RankInfo, stream int) []byte {
	switch {
	case !t.labels(r, stream):
		return nil
	case !t.Pattern.Empty():
		return []byte(t.Pattern.expand(r, stream, t.digits, t.Now()))
	case r.Tee.Has(stream):
		return []byte(torchrunTag(r, t.Template))
	case !t.terminal && !t.color:
		return fmt.Appendf(nil, "[%d] ", r.Rank)
	}
	return t.terminalTag(r.Rank, stream)
}

// torchrunTag returns the prefix of tee'd streams: role and local rank unless there is a template.
func torchrunTag(r RankInfo, template Pattern) string {
	if template.Empty() {
		return "[" + printable.Text(r.Role) + strconv.Itoa(r.LocalRank) + "]:"
	}
	return template.expand(r, 0, 0, time.Time{})
}

func (t *tagger) labels(r RankInfo, stream int) bool {
	switch t.Label {
	case LabelAlways:
		return true
	case LabelNever:
		return false
	}
	return t.terminal && t.several || r.Tee.Has(stream)
}

// terminalTag returns gorun's own for a terminal: padded so that columns line up, "[ 3] ", and coloured; "[ 3]!" for
// lines of stderr. The colour begins with a reset, so that another rank's colour does not run into its lines.
func (t *tagger) terminalTag(rank, stream int) []byte {
	tag, mark := fmt.Sprintf("[%*d]", t.digits, rank), " "
	if stream == Stderr {
		mark = "!"
	}
	if !t.color {
		return []byte(tag + mark)
	}
	if stream == Stderr {
		mark = "\x1b[0;31m!"
	}
	return []byte("\x1b[0;" + tagColors[rank%len(tagColors)] + "m" + tag + mark + "\x1b[0m")
}
