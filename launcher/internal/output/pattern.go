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

// Pattern is a text with verbs for properties of a rank, for the beginning of a line or the name of a file. The zero
// Pattern is empty.
type Pattern struct {
	parts []patternToken
	timed bool
}

// patternToken is literal text, or the letter of a verb.
type patternToken struct {
	text   string
	letter byte
}

func (p *Pattern) addText(text string) {
	if text != "" {
		p.parts = append(p.parts, patternToken{text: text})
	}
}

// ParsePattern parses the language of Hydra's -prepend-pattern and -outfile-pattern: %r is the rank, %h the host, %g
// the process group, %p the number of the node, %% a percent sign. In addition %s is the stream (stdout or stderr), %t
// the time in the format of C's ctime, and %R the rank with as many digits as the highest. Any other letter is an
// error.
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
			p.parts = append(p.parts, patternToken{letter: after[0]})
			p.timed = p.timed || after[0] == 't'
		default:
			return Pattern{}, fmt.Errorf("%q: write after %% one of r (rank), R (rank with leading zeros), h (host), "+
				"g (process group), p (number of the node), s (stream), t (time) and %%", s)
		}
		rest = after[1:]
	}
	return p, nil
}

// Letters of verbs that only templates have.
const (
	verbRole      = 'o'
	verbLocalRank = 'l'
	verbShortHost = 'H' // up to the first dot
)

// ParseTemplate parses the language of torchrun's --log-line-prefix-template, which is Python's string.Template:
// ${name} or $name is a rank's property, $$ a dollar sign, any other $ is literal. The names are role_name,
// local_rank, rank and hostname. An unknown name is an error here; torchrun leaves it in every line.
func ParseTemplate(s string) (p Pattern, err error) {
	if s == "" {
		return p, nil
	}
	letters := map[string]byte{
		"role_name": verbRole, "local_rank": verbLocalRank, "rank": 'r', "hostname": verbShortHost,
	}
	done := 0
	for _, at := range regexp.MustCompile(`\$(\$|[_a-zA-Z]\w*|\{[_a-zA-Z]\w*\})`).FindAllStringIndex(s, -1) {
		verb := s[at[0]:at[1]]
		letter := letters[strings.Trim(verb, "${}")]
		p.addText(s[done:at[0]])
		switch {
		case verb == "$$":
			p.addText("$")
		case letter == 0:
			return Pattern{}, fmt.Errorf("--log-line-prefix-template %q: unknown name %q; use ${role_name}, "+
				"${local_rank}, ${rank} or ${hostname}", s, verb)
		default:
			p.parts = append(p.parts, patternToken{letter: letter})
		}
		done = at[1]
	}
	p.addText(s[done:])
	return p, nil
}

// ParsePatterns parses the patterns of stdout and stderr; missing ones are empty.
func ParsePatterns(texts []string) (list [2]Pattern, err error) {
	for i, s := range texts[:min(len(texts), len(list))] {
		if list[i], err = ParsePattern(s); err != nil {
			return list, err
		}
	}
	return list, nil
}

// Empty reports whether there is no pattern.
func (p Pattern) Empty() bool { return len(p.parts) == 0 }

// VariesByNode reports whether ranks of different nodes have different texts.
func (p Pattern) VariesByNode() bool {
	return slices.ContainsFunc(p.parts, func(part patternToken) bool {
		return part.letter != 0 && strings.IndexByte("rRhp", part.letter) >= 0
	})
}

// expand returns the text for a rank's stream at a time. digits are those of the highest rank.
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
		case verbRole:
			b.WriteString(printable.Text(r.Role))
		case verbLocalRank:
			b.WriteString(strconv.Itoa(r.LocalRank))
		case verbShortHost:
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

// stamp renews a tag with the time.
type stamp struct {
	tagger *tagger
	rank   RankInfo
	stream int
	second int64 // of the lane's tag
}

// label returns what a line that begins now has before it.
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
