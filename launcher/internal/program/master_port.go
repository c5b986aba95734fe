package program

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sourceLimit is the maximum number of bytes that are read of a program's source.
const sourceLimit = 1 << 20

// Assignment is a place at which a script sets MASTER_PORT.
type Assignment struct {
	Line int // from 1
	Port int // the value if it is a literal number, else 0
	// Regroups says that the script destroys process groups on this host, all of which are at Port. It may create another
	// one there, which needs a store that outlives the first: PyTorch's rank 0 closes its server with each group, and a
	// rank that is ahead would still reach the previous one.
	Regroups bool
}

// AssignsMasterPort reports whether the Python file at path sets MASTER_PORT unconditionally, and the first such place.
// Such a script must host its own store: there is no other one at that port.
//
// These statements count at the top level, in functions that the script mentions elsewhere, too, and in the blocks of
// try, with and loops. In an if statement they count if all branches set the port:
//
//	os.environ["MASTER_PORT"] = "12355"
//	os.environ.update({"MASTER_PORT": port}), os.environ.update(MASTER_PORT=port), os.environ |= {…}
//	os.putenv("MASTER_PORT", port)
//
// These do not count, because they keep an existing port or may never run:
//
//   - setdefault, and anything below a line that reads the old port
//   - anything in a block of `except KeyError`, or of a condition that Linux and `__name__ == "__main__"` do not decide
//   - comments and strings
//
// This finds lines, and knows their indentation: it ignores syntax that it does not understand. It reads only the first
// 1 MiB, and a file that cannot be read sets nothing.
func AssignsMasterPort(path string) (place Assignment, ok bool) {
	text, err := readSource(path)
	if err != nil {
		return place, false
	}
	return assignsMasterPort(text)
}

// readSource reads the beginning of a program's text.
func readSource(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, sourceLimit))
}

// Patterns of lines, see [plainPython].
const (
	environ  = `\benvironb?`
	portKey  = `"MASTER_PORT"`
	setsPort = `(?:` + environ + `\[\s*` + portKey + `\s*\]\s*=|` + environ + `(?:\.update\(|\s*\|=).*?(?:` + portKey +
		`\s*[:,]|\bMASTER_PORT=)|(?:\bputenv|` + environ + `\.__setitem__)\(` + portKey + `,)` +
		`\s*(?:(?:str\()?"?(\d+)"?\)*\s*(?:[,;)}]|$))?`
	readsPort = `(?:` + environ + `\.(?:get|pop)|\bget\w*env\w*)\(` + portKey + `|` + portKey + `\s+(?:not\s+)?in\b|` +
		`f"[^"]*MASTER_PORT|` + environ + `\[` + portKey + `\]\s*(?:[^=\s]|$)`
	mergesAll   = `\*\*\s*(?:os\.)?environ\b|\bfor\b.*\benviron\b`
	otherName   = `^(?:from .*\benviron as (\w+)|(\w+)\s*=\s*(?:os\.)?environ$)`
	setsAddress = environ + `\["MASTER_ADDR"\]\s*=\s*("localhost"|"127 0 0 1")?`
)

// otherStores are names of functions and modules that start other processes, or a store that rank 0 must host.
var otherStores = [...]string{
	"multiprocessing", "mp", "spawn", "start_processes", "Process", "Pool", "ProcessPoolExecutor", "fork", "Popen",
	"subprocess", "putenv", "TCPStore",
}

// maxPlaces limits the assignments that are examined, as each takes time in proportion to the text.
const maxPlaces = 16

func assignsMasterPort(text []byte) (place Assignment, ok bool) {
	if !bytes.Contains(text, []byte("MASTER_PORT")) {
		return place, false
	}
	s := newScript(string(text))
	sets, reads, merges := regexp.MustCompile(setsPort), regexp.MustCompile(readsPort), regexp.MustCompile(mergesAll)
	renames, addresses := regexp.MustCompile(otherName), regexp.MustCompile(setsAddress)
	places, elsewhere := 0, slices.ContainsFunc(otherStores[:], func(name string) bool { return s.words[name] > 0 })
	var names []string // other ones of os.environ
	for i := range s.lines {
		line := &s.lines[i]
		if strings.Contains(line.text, "environ") {
			if name := renames.FindStringSubmatch(line.text); name != nil {
				names = append(names, name[1]+name[2])
			}
			address := addresses.FindStringSubmatch(line.text)
			elsewhere = elsewhere || address != nil && address[1] == ""
		}
		if !strings.Contains(line.text, "MASTER_PORT") {
			continue
		}
		for _, name := range names {
			line.text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(line.text, "environ")
		}
		found := sets.FindStringSubmatch(line.text)
		if found != nil {
			places++
		}
		switch {
		case ok || places > maxPlaces:
		case reads.MatchString(line.text):
			return place, false
		case found != nil && !merges.MatchString(line.text) && s.alwaysRuns(i):
			place.Line, ok = line.number, true
			if port, err := strconv.ParseUint(found[1], 10, 16); err == nil {
				place.Port = int(port)
			}
		}
	}
	place.Regroups = place.Port != 0 && places == 1 && !elsewhere && s.words["destroy_process_group"] > 0
	return place, ok
}

// plainPython returns a program without comments. Of strings it leaves letters, digits and underscores, between double
// quotes, and marks lines within by \v. == is ≡.
func plainPython(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	var plain strings.Builder
	for text != "" {
		at := strings.IndexAny(text, `#"'`)
		if at < 0 {
			at = len(text)
		}
		code, rest := text[:at], text[at:]
		switch {
		case strings.HasPrefix(rest, "#"):
			_, rest, _ = strings.Cut(rest, "\n")
			code += "\n"
		case rest != "":
			marks := rest[:1]
			if three := strings.Repeat(marks, 3); strings.HasPrefix(rest, three) {
				marks = three
			}
			word := code[len(strings.TrimRightFunc(code, isNameRune)):]
			if len(word) <= 2 && strings.Trim(word, "rRbBuUfFtT") == "" {
				code = strings.TrimRight(code[:at-len(word)]+strings.ToLower(word), "rbu")
			}
			content, size := cutString(rest[len(marks):], marks)
			code, rest = code+`"`+strings.Map(plainRune, content)+`"`, rest[len(marks)+size:]
		}
		plain.WriteString(code)
		text = rest
	}
	return strings.NewReplacer("==", "≡", "!=", "≢").Replace(plain.String())
}

func plainRune(r rune) rune {
	switch {
	case r == '\n':
		return '\v'
	case isNameRune(r):
		return r
	}
	return ' '
}

// cutString returns the content of a string and its length with the closing marks. A backslash escapes a quote, even in
// raw strings. A string without closing marks ends with its line, or with the text.
func cutString(text, marks string) (content string, size int) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], marks):
			return text[:i], i + len(marks)
		case text[i] == '\n' && len(marks) == 1:
			return text[:i], i
		}
	}
	return text, len(text)
}

func isNameRune(r rune) bool {
	return r >= 0x80 || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z'
}

// script is a Python program as plain text.
type script struct {
	lines []logicalLine
	words map[string]int // how often each occurs
}

func newScript(text string) *script {
	plain := plainPython(text)
	s := &script{lines: logicalLines(plain), words: map[string]int{}}
	for i, piece := range strings.Split(plain, `"`) {
		if i%2 == 1 && strings.ContainsAny(piece, " \v") {
			continue // a string with prose, which names no function
		}
		for word := range strings.FieldsFuncSeq(piece, func(r rune) bool { return !isNameRune(r) }) {
			s.words[word]++
		}
	}
	return s
}

// logicalLine is a logical line of Python: joined over brackets, backslashes and lines of strings.
type logicalLine struct {
	number, indent int
	text           string
}

// begins reports whether the line begins with one of some keywords.
func (l logicalLine) begins(keywords ...string) bool {
	return slices.ContainsFunc(keywords, func(word string) bool {
		rest, found := strings.CutPrefix(l.text, word)
		return found && (rest == "" || !isNameRune(rune(rest[0])))
	})
}

// maxStatement limits what is joined of a statement. Longer ones are data.
const maxStatement = 1 << 12

// logicalLines splits plain text into its lines that are not empty.
func logicalLines(text string) (lines []logicalLine) {
	number, depth, continues := 1, 0, false
	for line := range strings.SplitSeq(text, "\n") {
		code := strings.TrimLeft(line, " \t\f")
		code, more := strings.CutSuffix(strings.TrimRight(code, " \t\f"), "\\")
		switch {
		case continues:
			if last := &lines[len(lines)-1]; len(last.text) < maxStatement {
				last.text += " " + code
			}
		case code != "":
			indent := len(strings.ReplaceAll(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t", "        "))
			lines = append(lines, logicalLine{number, indent, strings.TrimPrefix(code, "async ")})
		}
		for _, c := range []byte(code) {
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth = max(depth-1, 0)
			}
		}
		continues = (depth > 0 || more) && len(lines) > 0
		number += 1 + strings.Count(line, "\v")
	}
	return lines
}

// alwaysRuns reports whether a line runs on Linux whenever the program does, or a function that the program mentions.
func (s *script) alwaysRuns(at int) bool {
	indent, uncalled := s.lines[at].indent+1, false
	for i := at; i >= 0 && indent > 0; i-- {
		line := s.lines[i]
		if line.indent >= indent {
			continue
		}
		indent = line.indent
		if uncalled && !(line.begins("class") && strings.Contains(line.text, "(") && !strings.Contains(line.text, "()")) {
			return false // a base class calls methods
		}
		uncalled = line.begins("def") && !s.calls(i)
		switch {
		case line.begins("elif", "except", "match", "case"),
			line.begins("while") && !regexp.MustCompile(`^while (?:True|1)\s*:`).MatchString(line.text),
			line.begins("if") && !holds(line.text, true),
			line.begins("else") && !s.elseRuns(i):
			return false
		}
	}
	return !uncalled
}

// holds reports whether a condition that is constant on Linux has a value. Others have none.
func holds(condition string, value bool) bool {
	constant := regexp.MustCompile(`^if (?:(True|1)|(False|0)|__name__ ≡ "__main__"|"__main__" ≡ __name__|` +
		`(?:sys\.platform|os\.name|platform\.system\(\)(?:\.lower\(\))?) ([≡≢]) "(\w+)")\s*:`)
	found := constant.FindStringSubmatch(condition)
	if found == nil {
		return false
	}
	is := found[2] == ""
	if found[3] != "" {
		is = slices.Contains([]string{"linux", "Linux", "posix"}, found[4]) == (found[3] == "≡")
	}
	return is == value
}

// elseRuns reports whether the block of an else runs on Linux, or all branches before it set the port, too.
func (s *script) elseRuns(at int) bool {
	sets, branch := regexp.MustCompile(setsPort), false
	for i := at - 1; i >= 0; i-- {
		line := s.lines[i]
		branch = branch || sets.MatchString(line.text)
		switch {
		case line.indent > s.lines[at].indent:
		case line.begins("if"):
			return branch || holds(line.text, false)
		case !line.begins("elif") || !branch:
			return false
		default:
			branch = false
		}
	}
	return false
}

// calls reports whether a function may be called, by Python, a decorator or a computed name, too.
func (s *script) calls(def int) bool {
	name := strings.TrimSpace(strings.TrimPrefix(s.lines[def].text, "def"))
	name = name[:len(name)-len(strings.TrimLeftFunc(name, isNameRune))]
	byName := func(function string) bool { return s.words[function] > 0 }
	return strings.HasPrefix(name, "__") || s.words[name] > 1 || def > 0 && strings.HasPrefix(s.lines[def-1].text, "@") ||
		slices.ContainsFunc([]string{"globals", "eval", "exec", "Fire"}, byName)
}
