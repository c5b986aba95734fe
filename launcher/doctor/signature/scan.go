package signature

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Finding is a signature that occurs in a text.
type Finding struct {
	Match         // of the first line
	Line   int    `json:"line,omitempty"`  // number of the first line, from 1
	Text   string `json:"text,omitempty"`  // the first line, by Plain
	Count  int    `json:"count,omitempty"` // number of lines
	Ranks  []int  `json:"ranks,omitempty"` // that printed it, sorted, as far as lines name their rank
	byRank map[int]bool
	vague  bool
}

// maxShown bounds the bytes of a line that are kept.
const maxShown = 500

// maxRanks bounds the ranks of a finding.
const maxRanks = 1 << 16

// Extent is how much of a text was read.
type Extent struct {
	Lines int
	Long  int // lines longer than MaxLine, which were searched in part
	// Report is what gorun's own report says of the rank that failed first, and ReportLine its line; "" for no report.
	Report     string
	ReportLine int
}

// addReport looks for the beginning of gorun's report in a line, and for the rank's error in the next one.
func (e *Extent) addReport(line []byte) {
	headline, ours := bytes.CutPrefix(line, []byte("gorun: rank"))
	failed, ended := []byte(" failed first: "), []byte(" ended first, ")
	switch {
	case ours && (bytes.Contains(headline, failed) || bytes.Contains(headline, ended)):
		e.Report, e.ReportLine = clip(Plain("rank"+string(headline), MaxLine)), e.Lines
	case e.Report != "" && e.Lines == e.ReportLine+1 && bytes.HasPrefix(line, []byte("  error ")):
		_, text := WithoutRank(Plain(strings.TrimSpace(string(line[len("  error "):])), MaxLine))
		e.Report += ": " + clip(strings.TrimSuffix(text, " (see above)"))
	}
}

// Scan reads a text of any length and returns the signatures in it, by kind and then by the first line. A line that
// matches several signatures counts only for the most telling one. Findings by [Vague] alone are left out if there is
// a cause.
func Scan(r io.Reader) (found []Finding, read Extent, err error) {
	at := map[string]int{} // index in found
	reader := bufio.NewReaderSize(r, 64<<10)
	quiet := filter{index: database()}
	for {
		line, err := readLine(reader)
		if err != nil && len(line) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return sorted(found), read, err
		}
		read.Lines++
		read.addReport(line)
		if quiet.excludes(line) {
			continue
		}
		if len(bytes.TrimRight(line, "\r\n")) > MaxLine {
			read.Long++
		}
		text := Plain(string(line), MaxLine)
		m, ok := Best(text)
		vague := !ok
		if vague {
			m, ok = Vague(text)
		}
		if !ok {
			continue
		}
		rank, bare := WithoutRank(text)
		if rank >= 0 {
			text = bare
		}
		i, seen := at[m.ID]
		if !seen {
			i = len(found)
			at[m.ID] = i
			found = append(found, Finding{Match: m, Line: read.Lines, Text: clip(text), byRank: map[int]bool{}, vague: vague})
		}
		found[i].vague = found[i].vague && vague
		found[i].Count++
		if rank >= 0 && len(found[i].byRank) < maxRanks {
			found[i].byRank[rank] = true
		}
	}
}

// readLine returns the next line, or the beginning of one that is longer than the reader's buffer. It is valid until
// the next call. NUL bytes at its beginning, of a log that was truncated while open, are left out.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	for line = bytes.TrimLeft(line, "\x00"); len(line) == 0 && errors.Is(err, bufio.ErrBufferFull); {
		line, err = r.ReadSlice('\n')
		line = bytes.TrimLeft(line, "\x00")
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return line, err
}

func clip(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "… (cut)"
}

func sorted(found []Finding) []Finding {
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

// label matches the prefix of a rank's line: PyTorch's "[rank3]: ", torchrun's "[default3]:", gorun's "[ 3] " and
// "[ 3]!", mpirun's "[1,3]<stdout>:", Hydra's "[3] ", srun's "3: ", "3 | ", and the one in gorun's failure report. It
// also matches what may precede it: a time, kubectl's "[pod/NAME] " and Ray's "(NAME pid=4711) ".
var label = sync.OnceValue(compileLabel)

func compileLabel() *regexp.Regexp {
	return regexp.MustCompile(
		`^ *(?:(?:error|last)? +│ |\[(?:rank|default)(\d{1,7})\]: ?|(?:(?:error|last) +)?\[ *(\d{1,7})\][ !]|` +
			`\[(?:\d+,)?(\d{1,7})\]<std(?:out|err)>: ?|(\d{1,7}) \| |(\d{1,7}): ` +
			`|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)?\]? |\[pod/[^ \]]+\] |\(\w+ pid=[^)]*\) )`)
}

// WithoutRank removes the prefixes of launchers and PyTorch from a rank's line. The rank is -1 if none is named.
func WithoutRank(line string) (rank int, text string) {
	rank = -1
	for {
		groups := label().FindStringSubmatch(line)
		if groups == nil {
			return rank, line
		}
		if digits := strings.Join(groups[1:], ""); digits != "" { // at most one is not empty
			rank, _ = strconv.Atoi(digits)
		}
		line = line[len(groups[0]):]
	}
}
