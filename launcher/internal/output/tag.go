package output

import (
	"fmt"
	"strconv"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
)

// Label says when lines begin with a tag of their rank.
type Label int

const (
	LabelAuto   Label = iota // on a terminal with more than one rank; tee'd streams everywhere, as torchrun does
	LabelAlways              // everywhere
	LabelNever               // nowhere
)

// RankInfo is what tags tell of a rank.
type RankInfo struct {
	Rank      int
	LocalRank int
	Host      string
	Role      string       // torchrun's --role
	Tee       spec.Streams // its tee'd streams
	Node      int          // its number
	World     int          // 0 for the ranks that the job began with
}

// tagColors are the SGR codes of ranks, so that neighbours differ. Red is left to stderr's mark.
var tagColors = [...]string{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"}

// tagger makes the tags of one destination.
type tagger struct {
	Config
	digits   int // of the highest rank
	several  bool
	terminal bool
	color    bool
}

// tag returns what a rank's lines begin with: nothing where they have no label. Without a pattern that is
// gorun's own for ordinary streams, "[3] ", and for tee'd ones the template or torchrun's, "[default3]:".
func (t *tagger) tag(r RankInfo, stream int) []byte {
	switch {
	case !t.labels(r, stream):
		return nil
	case !t.Pattern.Empty():
		return []byte(t.Pattern.expand(r, stream, t.digits, t.Now()))
	case r.Tee.Has(stream):
		return []byte(torchrunTag(r, t.Template))
	case !t.terminal:
		return fmt.Appendf(nil, "[%d] ", r.Rank)
	}
	return t.terminalTag(r.Rank, stream)
}

// torchrunTag is the prefix of tee'd streams: role and local rank unless there is a template.
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

// terminalTag is gorun's own as a terminal shows it: padded so that columns line up, "[ 3] ", and coloured. An
// exclamation mark takes the blank's place on lines of stderr: "[ 3]!". The colour begins with a reset, so that a
// colour that one rank left switched on does not run into another's lines.
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
