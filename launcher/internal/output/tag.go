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

// TagStyle is the form of the tag at the beginning of a labelled line.
type TagStyle int

const (
	// DefaultTag is RankTag for ordinary streams; for tee'd ones TorchrunTag, or the template where there is one.
	DefaultTag TagStyle = iota
	// RankTag is gorun's own: "[3] ". On a terminal the rank is padded so that columns line up, "[ 3] ", and coloured,
	// and an exclamation mark takes the blank's place on lines of stderr: "[ 3]!".
	RankTag
	// PatternTag is Config.Pattern, nothing added.
	PatternTag
	// TorchrunTag is that of torchrun's --tee: role and local rank, "[default3]:", without a blank.
	TorchrunTag
	// TemplateTag is Config.Template, nothing added.
	TemplateTag
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
	label    Label
	style    TagStyle
	template Template
	pattern  Pattern
	now      func() time.Time
	several  bool // more than one rank
	digits   int  // of the highest rank
	terminal bool
	color    bool
}

// tag returns what a rank's lines begin with: nothing where they have no label.
func (t tagger) tag(r RankInfo, stream int) []byte {
	if !t.labels(r, stream) {
		return nil
	}
	switch t.styleOf(r, stream) {
	case PatternTag:
		return []byte(t.pattern.expand(r, stream, t.digits, t.now()))
	case TorchrunTag:
		return []byte(torchrunTag(r))
	case TemplateTag:
		return []byte(t.template.expand(r))
	}
	if !t.terminal {
		return fmt.Appendf(nil, "[%d] ", r.Rank)
	}
	return t.terminalTag(r.Rank, stream)
}

// stampOf is what changes in a rank's tag, nil for nothing.
func (t tagger) stampOf(r RankInfo, stream int) *stamp {
	if !t.pattern.timed || !t.labels(r, stream) || t.styleOf(r, stream) != PatternTag {
		return nil
	}
	return &stamp{pattern: t.pattern, rank: r, stream: stream, digits: t.digits, now: t.now}
}

// torchrunTag is the prefix of tee'd streams where no template was given.
func torchrunTag(r RankInfo) string {
	return "[" + printable.Text(r.Role) + strconv.Itoa(r.LocalRank) + "]:"
}

func (t tagger) labels(r RankInfo, stream int) bool {
	switch t.label {
	case LabelAlways:
		return true
	case LabelNever:
		return false
	}
	return t.terminal && t.several || r.Tee.Has(stream)
}

func (t tagger) styleOf(r RankInfo, stream int) TagStyle {
	switch {
	case t.style != DefaultTag:
		return t.style
	case !r.Tee.Has(stream):
		return RankTag
	case !t.template.Empty():
		return TemplateTag
	}
	return TorchrunTag
}

// terminalTag is RankTag as a terminal shows it. The colour begins with a reset, so that a colour that one rank left
// switched on does not run into another's lines.
func (t tagger) terminalTag(rank, stream int) []byte {
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
