package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/printable"
)

// Pattern is a text with places for what belongs to a rank: the beginning of a line, or the name of a file. Its
// language is that of Hydra's -prepend-pattern and -outfile-pattern: %r is the rank, %h the host, %g the process group,
// %p the number of the node, %% a percent sign. Beyond it %s is the stream (stdout or stderr), %t the time as C's ctime
// writes it, and %R the rank with as many digits as the highest has. The zero Pattern is empty: none was given.
type Pattern struct {
	parts []patternPart
	timed bool
}

// patternPart is text that stands for itself, or the letter of a place.
type patternPart struct {
	text   string
	letter byte
}

// patternLetters are those of all places.
const patternLetters = "rhgpstR"

// ParsePattern reads a pattern. An unknown letter behind a percent sign is an error.
func ParsePattern(s string) (p Pattern, err error) {
	for rest := s; rest != ""; {
		text, after, found := strings.Cut(rest, "%")
		if text != "" {
			p.parts = append(p.parts, patternPart{text: text})
		}
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "%"):
			p.parts = append(p.parts, patternPart{text: "%"})
		case after != "" && strings.IndexByte(patternLetters, after[0]) >= 0:
			p.parts = append(p.parts, patternPart{letter: after[0]})
			p.timed = p.timed || after[0] == 't'
		default:
			return Pattern{}, fmt.Errorf("%q: behind a %% stands r (rank), R (rank with leading zeros), h (host), g (process "+
				"group), p (number of the node), s (stream), t (time), or another %%", s)
		}
		rest = after[1:]
	}
	return p, nil
}

// ParsePatterns reads those of stdout's and stderr's; none are empty.
func ParsePatterns(texts []string) (list [2]Pattern, err error) {
	for i, s := range texts[:min(len(texts), len(list))] {
		if list[i], err = ParsePattern(s); err != nil {
			return list, err
		}
	}
	return list, nil
}

// Empty tells whether there is no pattern.
func (p Pattern) Empty() bool { return len(p.parts) == 0 }

// TellsNodes tells whether ranks of different nodes have different texts.
func (p Pattern) TellsNodes() bool {
	return slices.ContainsFunc(p.parts, func(part patternPart) bool {
		return part.letter != 0 && strings.IndexByte("rRhp", part.letter) >= 0
	})
}

// expand fills in what belongs to a rank's stream at a time. digits are those of the highest rank.
func (p Pattern) expand(r RankInfo, stream, digits int, now time.Time) string {
	var b strings.Builder
	for _, part := range p.parts {
		switch part.letter {
		case 0:
			b.WriteString(part.text)
		case 'r':
			b.WriteString(strconv.Itoa(r.Rank))
		case 'R':
			fmt.Fprintf(&b, "%0*d", digits, r.Rank)
		case 'h':
			b.WriteString(printable.Text(r.Host))
		case 'g':
			b.WriteString(strconv.Itoa(r.World))
		case 'p':
			b.WriteString(strconv.Itoa(r.Node))
		case 's':
			b.WriteString(streamName(stream))
		case 't':
			b.WriteString(now.Format(time.ANSIC))
		}
	}
	return b.String()
}

// stamp is a tag that changes with time.
type stamp struct {
	pattern Pattern
	rank    RankInfo
	stream  int
	digits  int
	now     func() time.Time
	second  int64 // for which the lane's tag holds
}

// label is what a line that begins now has before it.
func (l *lane) label() []byte {
	if l.stamp == nil {
		return l.tag
	}
	now := l.stamp.now()
	if second := now.Unix(); second != l.stamp.second {
		l.stamp.second = second
		l.tag = []byte(l.stamp.pattern.expand(l.stamp.rank, l.stamp.stream, l.stamp.digits, now))
	}
	return l.tag
}
