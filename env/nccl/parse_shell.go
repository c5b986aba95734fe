package nccl

import (
	"slices"
	"strconv"
	"strings"
)

// word is one of a command's.
type word struct {
	text     string
	computed bool // it has a $ or a ` that is expanded
	line     int
	operator bool // ; && | ( and a line's end: a command ends
}

// parseShell returns what a shell script sets: NAME=VALUE, export, declare -x, env, csh's setenv, fish's set -x, what
// ssh and bash -c are given to run, and the options by which launchers and containers are told of variables; and what
// directives of Slurm and PBS in its comments set.
func parseShell(text string) []Assignment {
	s := shell{text: text, line: 1, exported: map[string]bool{}}
	return s.all()
}

// all is what the script sets.
func (s *shell) all() []Assignment {
	used := expanded(s.text)
	s.run()
	for i, a := range s.found {
		a.Local = a.Local && !s.exported[a.Name] && !s.exported["*"]
		s.found[i].Local = a.Local
		s.found[i].Unused = a.Local && !used[a.Name]
	}
	return s.found
}

// expanded are the names of $NAME and ${NAME in a text.
func expanded(text string) map[string]bool {
	used := map[string]bool{}
	for {
		_, rest, found := strings.Cut(text, "$")
		if !found {
			return used
		}
		text = strings.TrimPrefix(rest, "{")
		end := 0
		for end < len(text) && isName(text[:1]) && isName("_"+text[end:end+1]) {
			end++
		}
		used[text[:end]] = true
	}
}

// shell reads a script.
type shell struct {
	text    string
	at      int
	line    int
	command []word
	found   []Assignment
	blocks  []int // the branches that the place is in, the outermost ones
	deeper  int   // how many more there are
	branch  int   // number of the last branch
	heredoc []string
	depth   int // of scripts around this one

	exported map[string]bool // by a command of its own; "*": everything is
}

func (s *shell) run() {
	s.directive()
	for {
		w, ok := s.next()
		if !ok {
			break
		}
		if !w.operator {
			s.command = append(s.command, w)
			continue
		}
		s.finish(w.text)
		if w.text == "\n" {
			s.documents()
			s.directive()
		}
	}
	s.finish("")
}

// finish takes the words of a command that has ended.
func (s *shell) finish(operator string) {
	command := s.command
	s.command = nil
	for len(command) > 0 {
		if !s.keyword(command[0].text) {
			break
		}
		command = command[1:]
	}
	s.exports(command)
	path := pathOf(s.blocks)
	if ofCommand(command) {
		s.branch++
		path += "/" + strconv.Itoa(s.branch)
	}
	for _, a := range settings(command) {
		a.branch = path
		s.found = append(s.found, a)
	}
	s.within(command, path)
	if operator == ";;" {
		s.another()
	}
}

// exports follows export NAME, and set -a, after which everything is exported.
func (s *shell) exports(command []word) {
	if len(command) < 2 {
		return
	}
	switch first := command[0].text; {
	case first == "export" || first == "declare" || first == "typeset":
		for _, w := range command[1:] {
			s.exported[w.text] = true
		}
	case first == "set" && (command[1].text == "-a" || command[1].text == "-o" && len(command) > 2 &&
		command[2].text == "allexport"):
		s.exported["*"] = true
	}
}

// keyword follows the branches of a script; it reports whether a command can follow.
func (s *shell) keyword(text string) bool {
	switch text {
	case "if", "case":
		s.enter()
	case "else", "elif":
		s.another()
	case "fi", "esac":
		s.leave()
	case "then", "do", "while", "until", "time", "{", "}", "!":
	default:
		return false
	}
	return text != "case"
}

// mostBlocks is how many branches within each other are told apart: each setting names all that
// it is in, and a file may come from anybody.
const mostBlocks = 64

func (s *shell) enter() {
	if len(s.blocks) == mostBlocks {
		s.deeper++
		return
	}
	s.branch++
	s.blocks = append(s.blocks, s.branch)
}

func (s *shell) leave() {
	switch {
	case s.deeper > 0:
		s.deeper--
	case len(s.blocks) > 0:
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
}

// another begins another branch beside the innermost one.
func (s *shell) another() {
	if len(s.blocks) > 0 && s.deeper == 0 {
		s.branch++
		s.blocks[len(s.blocks)-1] = s.branch
	}
}

// pathOf names the branches that a place is in.
func pathOf(blocks []int) string {
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString("/" + strconv.Itoa(block))
	}
	return b.String()
}

// next returns the next word or operator.
func (s *shell) next() (word, bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case strings.HasPrefix(s.text[s.at:], "\\\n"):
			s.at += 2
			s.line++
		case strings.HasPrefix(s.text[s.at:], "\\\r\n"):
			s.at += 3
			s.line++
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
		case c == '#':
			s.at += lineEnd(s.text[s.at:])
		case c == '\n':
			s.at++
			s.line++
			return word{text: "\n", operator: true, line: s.line - 1}, true
		case strings.HasPrefix(s.text[s.at:], "<<") && !strings.HasPrefix(s.text[s.at:], "<<<"):
			s.at += 2
			s.document()
		case strings.IndexByte(";&|()", c) >= 0:
			end := s.at + 1
			for end < len(s.text) && s.text[end] == c {
				end++
			}
			w := word{text: s.text[s.at:end], operator: true, line: s.line}
			s.at = end
			return w, true
		default:
			return s.word(), true
		}
	}
	return word{}, false
}

func lineEnd(text string) int {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return end
	}
	return len(text)
}

// word reads one word, which begins here.
func (s *shell) word() word {
	w := word{line: s.line}
	var b strings.Builder
	for s.at < len(s.text) {
		c := s.text[s.at]
		if strings.IndexByte(" \t\r\n;&|()", c) >= 0 {
			break
		}
		switch {
		case c == '\\' && s.at+1 < len(s.text):
			if s.text[s.at+1] == '\n' {
				s.line++
			} else {
				b.WriteByte(s.text[s.at+1])
			}
			s.at += 2
		case c == '\'' || c == '"':
			s.quoted(c, &b, &w)
		case c == '$' || c == '`':
			s.expansion(&b, &w)
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	w.text = b.String()
	return w
}

// quoted reads what stands in quotes. Quotes that nobody closes are text.
func (s *shell) quoted(quote byte, b *strings.Builder, w *word) {
	end := s.at + 1
	for end < len(s.text) && s.text[end] != quote {
		if quote == '"' && s.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.text) {
		b.WriteByte(quote)
		s.at++
		return
	}
	for s.at++; s.at < end; {
		switch c := s.text[s.at]; {
		case quote == '"' && c == '\\' && s.at+1 < end:
			if s.text[s.at+1] == '\n' {
				s.line++
			} else {
				b.WriteByte(s.text[s.at+1])
			}
			s.at += 2
		case quote == '"' && (c == '$' || c == '`'):
			s.expansion(b, w)
		default:
			if c == '\n' {
				s.line++
			}
			b.WriteByte(c)
			s.at++
		}
	}
	s.at = max(s.at, end+1) // an expansion may have gone beyond
}

// expansion reads $NAME, ${…}, $(…) or `…`, of which nothing is known, but that
// ${NAME:-value} means value where nobody set another.
func (s *shell) expansion(b *strings.Builder, w *word) {
	rest := s.text[s.at:]
	end := 1
	switch {
	case rest[0] == '`':
		end = closing(rest, '`', '`')
	case strings.HasPrefix(rest, "${"):
		end = closing(rest[1:], '{', '}') + 1
		inner := rest[2:max(end-1, 2)]
		if name, value, found := strings.Cut(inner, ":-"); found && isName(name) && !strings.ContainsAny(value, "$`'\"") {
			b.WriteString(value)
			s.skip(rest[:end])
			return
		}
	case strings.HasPrefix(rest, "$("):
		end = closing(rest[1:], '(', ')') + 1
	default:
		for end < len(rest) && isName("_"+rest[end:end+1]) {
			end++
		}
		if end == 1 && len(rest) > 1 && strings.IndexByte("?#@*!$-", rest[1]) >= 0 {
			end = 2
		}
		if end == 1 { // a lone $
			b.WriteByte('$')
			s.at++
			return
		}
	}
	w.computed = true
	b.WriteString(rest[:end])
	s.skip(rest[:end])
}

func (s *shell) skip(text string) {
	s.line += strings.Count(text, "\n")
	s.at += len(text)
}

// closing is how long a text is up to the bracket that closes its first one; the
// first line where there is none.
func closing(text string, open, shut byte) int {
	depth := 0
	for i := range len(text) {
		switch {
		case text[i] == shut && i > 0:
			if depth--; depth <= 0 {
				return i + 1
			}
		case text[i] == open:
			depth++
		}
	}
	return max(lineEnd(text), 1)
}

// document reads the word behind <<, at which a text in the script ends.
func (s *shell) document() {
	if s.at < len(s.text) && s.text[s.at] == '-' {
		s.at++
	}
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
	if end := s.word().text; end != "" {
		s.heredoc = append(s.heredoc, end)
	}
}

// documents reads the texts that begin on this line: files are written so, of which
// lines NAME=VALUE are taken.
func (s *shell) documents() {
	for len(s.heredoc) > 0 && s.at < len(s.text) {
		end := lineEnd(s.text[s.at:])
		line := s.text[s.at : s.at+end]
		if strings.TrimSpace(line) == s.heredoc[0] {
			s.heredoc = s.heredoc[1:]
		} else {
			for _, a := range settings(plainWords(line, s.line)) {
				a.branch, a.Local = pathOf(s.blocks), false
				s.found = append(s.found, a)
			}
		}
		s.at = min(s.at+end+1, len(s.text))
		s.line++
	}
}

// directive takes what #SBATCH --export=…, #PBS -v … and their like on the next line
// set.
func (s *shell) directive() {
	line := s.text[s.at : s.at+lineEnd(s.text[s.at:])]
	for _, prefix := range []string{"#SBATCH ", "#PBS ", "#$ ", "#BSUB "} {
		if rest, found := strings.CutPrefix(line, prefix); found {
			s.found = append(s.found, settings(plainWords(rest, s.line))...)
		}
	}
}

// plainWords are the words of a line that is no command of the script's own.
func plainWords(line string, number int) []word {
	inner := shell{text: line, line: number}
	var words []word
	for {
		w, ok := inner.next()
		if !ok {
			return words
		}
		if !w.operator {
			words = append(words, w)
		}
	}
}

// ofCommand reports whether what a command's words set holds for that command alone.
func ofCommand(command []word) bool {
	for _, w := range command {
		if name, _, found := strings.Cut(w.text, "="); !found || !isName(name) {
			return !slices.Contains([]string{
				"export", "declare", "typeset", "readonly", "local", "setenv", "set",
				"prepend-path",
			}, w.text)
		}
	}
	return false
}

// settings are the variables that one command sets.
func settings(command []word) (found []Assignment) {
	add := func(w word, text string) bool {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimSuffix(name, "+"); !ok || !isName(name) {
			return false
		}
		found = append(found, Assignment{Name: name, Value: value, Computed: w.computed, Line: w.line})
		return true
	}
	first := 0
	for first < len(command) && add(command[first], command[first].text) {
		first++
	}
	command = command[first:]
	if len(command) == 0 {
		for i := range found {
			found[i].Local = true
		}
		return found
	}
	switch command[0].text {
	case "export", "declare", "typeset", "readonly", "local":
		for _, w := range command[1:] {
			add(w, w.text)
		}
		return found
	case "setenv", "prepend-path":
		if len(command) > 2 {
			add(command[2], command[1].text+"="+command[2].text)
		}
		return found
	case "set":
		return append(found, fish(command)...)
	}
	for i := 0; i < len(command); i++ {
		if command[i].text == "env" {
			for _, w := range command[i+1:] {
				if !add(w, w.text) && !strings.HasPrefix(w.text, "-") {
					break
				}
			}
			continue
		}
		option(command[i:], add)
	}
	return found
}

// fish reads set -gx NAME VALUE.
func fish(command []word) []Assignment {
	exported := false
	for i, w := range command[1:] {
		flag, isFlag := strings.CutPrefix(w.text, "-")
		switch {
		case isFlag:
			exported = exported || flag == "-export" || !strings.HasPrefix(flag, "-") && strings.Contains(flag, "x")
		case exported && isName(w.text) && i+2 < len(command):
			value := command[i+2]
			return []Assignment{{Name: w.text, Value: value.text, Computed: value.computed, Line: w.line}}
		default:
			return nil
		}
	}
	return nil
}

// The options by which commands are told of variables: of mpirun, gorun and containers
// NAME=VALUE, of Hydra NAME VALUE, of Slurm and PBS lists; Open MPI's parameters are
// variables by another name.
var (
	oneSetting  = []string{"-x", "-e", "--env", "--envar", "-env", "--genv", "--setenv"}
	twoWords    = []string{"-genv", "-env", "--genv", "-envall"}
	listSetting = []string{"--export", "-v", "-env"}
	parameter   = []string{"--mca", "-mca", "--gmca", "-gmca", "--omca", "--prtemca"}
)

// option takes the variable that an option sets, which the command's rest begins with.
func option(rest []word, add func(word, string) bool) {
	text := rest[0].text
	if name, value, found := strings.Cut(text, "="); found && strings.HasPrefix(name, "-") {
		switch {
		case slices.Contains(listSetting, name):
			addList(rest[0], value, add)
		case slices.Contains(oneSetting, name):
			add(rest[0], value)
		}
		return
	}
	if len(rest) < 2 {
		return
	}
	next := rest[1]
	switch {
	case slices.Contains(parameter, text) && len(rest) > 2:
		add(rest[2], "OMPI_MCA_"+next.text+"="+rest[2].text)
	case slices.Contains(twoWords, text) && len(rest) > 2 && isName(next.text):
		add(rest[2], next.text+"="+rest[2].text)
	case slices.Contains(listSetting, text) && strings.Contains(next.text, ",") && !slices.Contains(oneSetting, text):
		addList(next, next.text, add)
	case slices.Contains(oneSetting, text) || slices.Contains(listSetting, text):
		add(next, next.text)
	}
}

// addList takes A=1,B=2. A piece without = belongs to the value before it: Slurm cuts
// there, and means it so only in quotes.
func addList(w word, list string, add func(word, string) bool) {
	for _, piece := range strings.Split(list, ",") {
		add(w, piece)
	}
}
