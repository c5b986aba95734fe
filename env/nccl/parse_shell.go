package nccl

import (
	"slices"
	"strconv"
	"strings"
)

// word is one word of a command.
type word struct {
	text     string
	computed bool // it contains a $ or ` that the shell expands
	line     int
	operator bool // ; && | ( or the end of a line: a command ends
}

// parseShell returns the assignments in a shell script: NAME=VALUE, export, declare -x, env, csh's setenv,
// fish's set -x. It also reads the scripts passed to ssh and bash -c, options of launchers and containers that
// set variables, and Slurm and PBS directives.
func parseShell(text string) []Assignment {
	s := shell{text: text, line: 1, exported: map[string]bool{}}
	return s.all()
}

// all returns the assignments of the script.
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

// expanded returns the names of $NAME and ${NAME in a text.
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

// shell parses a script.
type shell struct {
	text    string
	at      int
	line    int
	command []word
	found   []Assignment
	blocks  []int // enclosing branches, outermost first
	deeper  int   // number of enclosing branches beyond these
	branch  int   // number of the last branch
	heredoc []string
	depth   int // number of enclosing scripts

	exported map[string]bool // by separate commands; "*" means all variables
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

// finish processes a complete command.
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

// exports records export NAME, and set -a, which exports everything that follows.
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

// keyword tracks the branches of a script. It reports whether a command can follow.
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

// mostBlocks limits the nesting of branches. Each assignment names all its branches, and the file may be
// hostile.
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

// another starts another branch of the innermost if or case.
func (s *shell) another() {
	if len(s.blocks) > 0 && s.deeper == 0 {
		s.branch++
		s.blocks[len(s.blocks)-1] = s.branch
	}
}

// pathOf formats the enclosing branches.
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

// word parses the word at the current position.
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

// quoted parses a quoted string. An unclosed quote is plain text.
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
	s.at = max(s.at, end+1) // an expansion may have passed the end
}

// expansion parses $NAME, ${…}, $(…) or `…`. Their values are unknown, but ${NAME:-value} means value if no
// assignment sets NAME.
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
		if end == 1 { // a single $
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

// closing returns the length of a text up to the bracket that closes its first one, or of the first line
// without one.
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

// document reads the delimiter of a here-document, the word after <<.
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

// documents reads the here-documents after this line. Scripts write configuration files this way, so
// NAME=VALUE lines count.
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

// directive adds the assignments of a directive on the next line, such as #SBATCH --export=… or #PBS -v ….
func (s *shell) directive() {
	line := s.text[s.at : s.at+lineEnd(s.text[s.at:])]
	for _, prefix := range []string{"#SBATCH ", "#PBS ", "#$ ", "#BSUB "} {
		if rest, found := strings.CutPrefix(line, prefix); found {
			s.found = append(s.found, settings(plainWords(rest, s.line))...)
		}
	}
}

// plainWords splits a line that is not a command of the script itself.
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

// ofCommand reports whether a command's assignments apply to that command alone.
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

// settings returns the assignments of one command.
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

// fish parses set -gx NAME VALUE.
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

// The options with which commands set variables. Those of mpirun, gorun and containers take NAME=VALUE,
// Hydra's take NAME VALUE, and those of Slurm and PBS take lists. Open MPI's parameters are variables with a
// prefix.
var (
	oneSetting  = []string{"-x", "-e", "--env", "--envar", "-env", "--genv", "--setenv"}
	twoWords    = []string{"-genv", "-env", "--genv", "-envall"}
	listSetting = []string{"--export", "-v", "-env"}
	parameter   = []string{"--mca", "-mca", "--gmca", "-gmca", "--omca", "--prtemca"}
)

// option adds the variable that an option at the start of the words sets.
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

// addList parses A=1,B=2. A part without = belongs to the value before it. Slurm splits there, unless the
// value is quoted.
func addList(w word, list string, add func(word, string) bool) {
	for _, piece := range strings.Split(list, ",") {
		add(w, piece)
	}
}
