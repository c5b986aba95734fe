package signature

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Finding is a signature that occurs in a text, once or often.
type Finding struct {
	Match         // of the first line
	Line   int    `json:"line,omitempty"`  // number of the first line, from 1
	Text   string `json:"text,omitempty"`  // the first line, without control bytes, and whatever else stood on it
	Count  int    `json:"count,omitempty"` // lines in all
	Ranks  []int  `json:"ranks,omitempty"` // that said it, sorted, as far as lines name their rank
	byRank map[int]bool
	vague  bool
}

// longestShown is how many bytes of a line are kept.
const longestShown = 500

// mostRanks is how many ranks a finding remembers.
const mostRanks = 1 << 16

// Extent is how much of a text was read.
type Extent struct {
	Lines int
	Long  int // lines of which only the beginning was looked at, for they have more than LongestLine bytes
}

// Scan reads a text of any length and returns what occurs in it: causes first, then symptoms, then what follows from
// others' failures, then remarks, each by the place where it occurs first. A line that fits several signatures counts
// for the most telling alone; what is found by [Vague] alone is left out beside a cause.
func Scan(r io.Reader) (found []Finding, read Extent, err error) {
	at := map[string]int{} // the index in found
	reader := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(reader)
		if err != nil && line == "" {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return ordered(found), read, err
		}
		read.Lines++
		line = strings.TrimLeft(line, "\x00") // of a log that was cut while it was written
		if len(strings.TrimRight(line, "\r\n")) > LongestLine {
			read.Long++
		}
		text := Plain(line, LongestLine)
		m, ok := Best(text)
		vague := !ok
		if vague {
			m, ok = Vague(text)
		}
		if !ok {
			continue
		}
		rank, text := WithoutRank(text)
		i, seen := at[m.ID]
		if !seen {
			i = len(found)
			at[m.ID] = i
			found = append(found, Finding{Match: m, Line: read.Lines, Text: clip(text), byRank: map[int]bool{}, vague: vague})
		}
		found[i].vague = found[i].vague && vague
		found[i].Count++
		if rank >= 0 && len(found[i].byRank) < mostRanks {
			found[i].byRank[rank] = true
		}
	}
}

// readLine returns the next line, or the beginning of one that is longer than the reader's buffer.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	text := string(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return text, err
}

func clip(text string) string {
	if len(text) <= longestShown {
		return text
	}
	return strings.ToValidUTF8(text[:longestShown], "") + "… (cut)"
}

func ordered(found []Finding) []Finding {
	for i := range found {
		for rank := range found[i].byRank {
			found[i].Ranks = append(found[i].Ranks, rank)
		}
		slices.Sort(found[i].Ranks)
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Kind, b.Kind) })
	if slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == Cause && !f.vague }) {
		found = slices.DeleteFunc(found, func(f Finding) bool { return f.vague })
	}
	return found
}

// label is what stands before a rank's line: PyTorch's "[rank3]: " and torchrun's "[default3]:", gorun's "[ 3] " and "[
// 3]!", mpirun's "[1,3]<stdout>:", Hydra's "[3] ", srun's "3: ", "3 | ", and what gorun's report puts before a rank's
// last lines.
var label = sync.OnceValue(compileLabel)

func compileLabel() *regexp.Regexp {
	return regexp.MustCompile(
		`^ *(?:(?:error|last)? +│ |\[(?:rank|default)(\d{1,7})\]: ?|\[ *(\d{1,7})\][ !]|\[(?:\d+,)?(\d{1,` +
			`7})\]<std(?:out|err)>: ?|(\d{1,7}) \| |(\d{1,7}): )`)
}

// WithoutRank takes off what launchers and PyTorch put before a rank's line. The rank is -1 where none is named.
func WithoutRank(line string) (rank int, text string) {
	rank = -1
	for {
		groups := label().FindStringSubmatch(line)
		if groups == nil {
			return rank, line
		}
		if digits := strings.Join(groups[1:], ""); digits != "" { // one of them at most is not empty
			rank, _ = strconv.Atoi(digits)
		}
		line = line[len(groups[0]):]
	}
}
