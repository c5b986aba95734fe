package output

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/internal/printable"
)

// Pattern is a text with places for what belongs to a rank: the beginning of a line, or the name of a file. The zero
// Pattern is empty: none was given.
type Pattern struct {
	parts []patternPart
	timed bool
}

// patternPart is text that stands for itself, or the letter of a place.
type patternPart struct {
	text   string
	letter byte
}

func (p *Pattern) addText(text string) {
	if text != "" {
		p.parts = append(p.parts, patternPart{text: text})
	}
}

// ParsePattern reads the language of Hydra's -prepend-pattern and -outfile-pattern: %r is the rank, %h the host, %g the
// process group, %p the number of the node, %% a percent sign. Beyond it %s is the stream (stdout or stderr), %t the
// time as C's ctime writes it, and %R the rank with as many digits as the highest has. An unknown letter behind a
// percent sign is an error.
func ParsePattern(s string) (p Pattern, err error) {
	for rest := s; rest != ""; {
		text, after, found := strings.Cut(rest, "%")
		p.addText(text)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "%"):
			p.addText("%")
		case after != "" && strings.IndexByte("rhgpstR", after[0]) >= 0:
			p.parts = append(p.parts, patternPart{letter: after[0]})
			p.timed = p.timed || after[0] == 't'
		default:
			return Pattern{}, fmt.Errorf("%q: behind a %% stands r (rank), R (rank with leading zeros), h (host), "+
				"g (process group), p (number of the node), s (stream), t (time), or another %%", s)
		}
		rest = after[1:]
	}
	return p, nil
}

// The letters of places that templates alone have.
const (
	placeRole      = 'o'
	placeLocalRank = 'l'
	placeShortHost = 'H' // up to the first dot
)

// ParseTemplate reads the language of torchrun's --log-line-prefix-template, which is Python's string.Template: ${name}
// or $name is a rank's property, $$ a dollar sign, any other $ stands for itself. The names are role_name, local_rank,
// rank and hostname. An unknown name is an error here; torchrun leaves it in every line as it is.
func ParseTemplate(s string) (p Pattern, err error) {
	if s == "" {
		return p, nil
	}
	letters := map[string]byte{
		"role_name": placeRole, "local_rank": placeLocalRank, "rank": 'r', "hostname": placeShortHost,
	}
	done := 0
	for _, at := range regexp.MustCompile(`\$(\$|[_a-zA-Z]\w*|\{[_a-zA-Z]\w*\})`).FindAllStringIndex(s, -1) {
		place := s[at[0]:at[1]]
		letter := letters[strings.Trim(place, "${}")]
		p.addText(s[done:at[0]])
		switch {
		case place == "$$":
			p.addText("$")
		case letter == 0:
			return Pattern{}, fmt.Errorf("--log-line-prefix-template %q: unknown name %q; known are ${role_name}, "+
				"${local_rank}, ${rank} and ${hostname}", s, place)
		default:
			p.parts = append(p.parts, patternPart{letter: letter})
		}
		done = at[1]
	}
	p.addText(s[done:])
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
		case placeRole:
			b.WriteString(printable.Text(r.Role))
		case placeLocalRank:
			b.WriteString(strconv.Itoa(r.LocalRank))
		case placeShortHost:
			b.WriteString(printable.Text(shortHost(r.Host)))
		}
	}
	return b.String()
}

// shortHost returns a host's name up to the first dot, and addresses as they are.
func shortHost(host string) string {
	name, _, dotted := strings.Cut(host, ".")
	if !dotted || strings.Trim(host, "0123456789.") == "" || strings.Contains(host, ":") {
		return host
	}
	return name
}

// stamp is a tag that changes with time.
type stamp struct {
	tagger *tagger
	rank   RankInfo
	stream int
	second int64 // for which the lane's tag holds
}

// label is what a line that begins now has before it.
func (l *lane) label() []byte {
	if s := l.stamp; s != nil {
		now := s.tagger.Now()
		if second := now.Unix(); second != s.second {
			s.second = second
			l.tag = []byte(s.tagger.Pattern.expand(s.rank, s.stream, s.tagger.digits, now))
		}
	}
	return l.tag
}
