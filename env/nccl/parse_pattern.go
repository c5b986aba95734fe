package nccl

import (
	"regexp"
	"strconv"
	"strings"
)

// Pieces of patterns. A name and its value are two groups; a match without groups is skipped.
const (
	anyName   = `([A-Za-z_][A-Za-z0-9_]*)`
	quoted    = `"[^"\n]*"|'[^'\n]*'`
	comment   = `(?:^|[ \t])#[^\n]*`
	value     = `(` + quoted + `|(?:[^\s;&|()"'\\]|\\[^\n])*)`
	wordValue = `(?:^|[\s"'({\[,;|&=])` + anyName + `=` + value
)

// scriptPattern finds what a shell script, its batch system, ssh, mpirun, srun or docker sets: as NAME=VALUE, by
// csh's setenv, by fish's set -x, by -genv NAME VALUE, by --mca KEY VALUE. Words that begin and end branches match
// without groups. The first pair of groups is an assignment that is a command, the second a parameter of Open MPI.
const scriptPattern = `^#(?:SBATCH|PBS|BSUB|\$)\s|` + comment + `|;;|` + command + `(?:if|elif|else|fi|case|esac)\b|` +
	command + anyName + `=` + value + `[ \t\r]*(?:$|[;&|)])|` +
	`\s--?(?:g|o|prte)?mca\s+` + anyName + `\s+` + value + `|` +
	`(?:\s--?g?env|\b(?:setenv|prepend-path)|\bset(?:[ \t]+-\S+)*[ \t]+-(?:\w*x\w*|-export))(?:[ \t]+-\S+)*` +
	`[ \t]+` + anyName + `[ \t]+` + value + `|` + wordValue

// command is where a command of a script begins.
const command = `(?:^|[\n;&|(]|\b(?:then|do)\s)[ \t]*`

// patternOf returns the pattern for assignments in a kind of text. It matches lines without structure: in YAML
// a scalar ends at a blank, and in Python any dictionary may be an environment.
func patternOf(kind SourceKind) string {
	const (
		literal = `([rRuUbB]*(?:` + quoted + `)|str\(\d+\)|[0-9.]+)`
		key     = `["']` + anyName + `["']`
		scalar  = `(` + quoted + `|[^\s"'{\[#][^\s}\]]*|\{\{[^\n]*?\}\})`
		capital = `([A-Z_][A-Z0-9_]*)`
		pair    = `\b(?:name|key)["']?:\s*["']?` + capital + `\b["']?(?:\s*,?\s*["']?value["']?:[ \t]*` + scalar + `)?`
		mapping = pair + `|["']` + capital + `["']:[ \t]*` + scalar + `|\b` + capital + `:[ \t]+` + scalar + `|` + wordValue
	)
	switch kind {
	case FromDockerfile:
		return comment + `|(?i:^[ \t]*(?:arg|add|copy|from|label)\s)[^\n]*|(?i:^[ \t]*(?:onbuild[ \t]+)?env)[ \t]+` +
			anyName + `(?:[ \t]|\\\n)((?:[^\n]*\\\n)*[^\n]*)|` + wordValue
	case FromPython:
		return comment + `|"""(?s:.*?)"""|'''(?s:.*?)'''|\[\s*` + key + `\s*\]\s*=(?:\s*` + literal + `|[^=])|` +
			`(?:setdefault|putenv|setenv|__setitem__)\(\s*` + key + `\s*,\s*` + literal + `?|` +
			key + `\s*:\s*` + literal + `?|[({,]\s*` + anyName + `=` + literal + `?`
	case FromScript:
		return scriptPattern
	case FromYAML:
		return comment + `|` + mapping
	case FromJSON:
		return `(?:^|\s)//[^\n]*|/\*(?s:.*?)\*/|` + mapping
	}
	return `^` + anyName + `=([^\n]*)` // as env prints them
}

// parsePatterns returns the assignments in a text, found with the pattern of its kind. Indentation defines
// blocks, but in Dockerfiles all assignments belong together, and scripts have words for that.
func parsePatterns(kind SourceKind, text string) (found []Assignment) {
	lines := indentation{text: text}
	if kind == FromScript {
		lines.exporting = regexp.MustCompile(
			`^#|(?:^|[\s;&|(])(?:export|declare|typeset|readonly|local|setenv|set|prepend-path)\s`)
	}
	for _, m := range regexp.MustCompile(`(?m)`+patternOf(kind)).FindAllStringSubmatchIndex(text, -1) {
		at := 2 // start of the first matching pair of groups
		for at < len(m) && m[at] < 0 {
			at += 4
		}
		if at >= len(m) {
			lines.keyword(strings.Trim(text[m[0]:m[1]], " \n\t;&|("))
			continue
		}
		lines.seek(m[at])
		a := Assignment{Name: text[m[at]:m[at+1]], Line: lines.number, Computed: true}
		if kind != FromDockerfile {
			a.branch = pathOf(lines.blocks)
		}
		if m[at+2] >= 0 {
			a.Value, a.Computed = plainValue(kind, text[m[at+2]:m[at+3]], text[m[at+3]:])
		}
		if kind != FromScript {
			found = append(found, a)
			continue
		}
		switch isCommand, isParameter := at == 2 && !lines.continues, at == 6; {
		case isCommand:
			a.Local = true
		case isParameter:
			a.Name = "OMPI_MCA_" + a.Name
			fallthrough
		case lines.command > 0: // for one command alone
			a.branch += "/" + strconv.Itoa(lines.command)
		}
		found = append(found, splitList(a)...)
	}
	if kind == FromScript {
		markLocal(text, found)
	}
	return found
}

// splitList splits NAME=1,OTHER=2, as options of Slurm and PBS have it.
func splitList(a Assignment) (all []Assignment) {
	pieces := strings.Split(a.Value, ",")
	a.Value = pieces[0]
	for _, piece := range pieces[1:] {
		if name, value, ok := strings.Cut(piece, "="); ok && isName(name) {
			all = append(all, a)
			a.Name, a.Value = name, value
		} else {
			a.Value += "," + piece
		}
	}
	return append(all, a)
}

// markLocal keeps Local for what a script does not export. It does not know what a here-document is for.
func markLocal(text string, found []Assignment) {
	if strings.Contains(text, "<<") || regexp.MustCompile(`(?m)^\s*set\s+-(?:\w*a|o\s+allexport)`).MatchString(text) {
		for i := range found {
			found[i].Local = false
		}
		return
	}
	exported, used := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		used[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`\b(?:export|declare|typeset)\s([^\n;]*)`).FindAllStringSubmatch(text, -1) {
		for name := range strings.FieldsSeq(m[1]) {
			exported[name] = true
		}
	}
	for i := range found {
		a := &found[i]
		a.Local = a.Local && !exported[a.Name]
		a.Unused = a.Local && !used[a.Name]
	}
}

// plainValue returns a value without quotes, and whether only execution determines it. behind is the text
// after the value.
func plainValue(kind SourceKind, value, behind string) (plain string, computed bool) {
	plain = strings.TrimSpace(strings.ReplaceAll(value, "\\\n", ""))
	switch kind {
	case FromEnvironment:
	case FromPython:
		behind = strings.TrimLeft(behind, " \t\r")
		computed = behind != "" && !strings.ContainsRune(",;)}]#\n", rune(behind[0]))
		plain = strings.TrimSuffix(strings.TrimPrefix(strings.TrimLeft(plain, "rRuUbB"), "str("), ")")
	case FromYAML, FromJSON:
		plain = strings.TrimSuffix(plain, ",")
		computed = strings.ContainsAny(plain, "$`") || strings.Contains(plain, "{{") ||
			plain != "" && strings.Contains("&*!|>", plain[:1])
	default:
		if name, other, ok := strings.Cut(strings.Trim(plain, `"`), ":-"); ok && strings.HasPrefix(name, "${") {
			plain = strings.TrimSuffix(other, "}") // what counts if no other line sets the variable
		}
		computed = strings.ContainsAny(plain, "$`")
	}
	if n := len(plain); n > 1 && (plain[0] == '"' || plain[0] == '\'') && plain[n-1] == plain[0] {
		return plain[1 : n-1], computed
	}
	if kind == FromDockerfile || kind == FromScript {
		plain = strings.ReplaceAll(plain, "\\", "")
	}
	return plain, computed
}

// mostBlocks limits the nesting of blocks. Each assignment names all of them, and the file may be hostile.
const mostBlocks = 64

// indentation tracks the lines of a text and its blocks, which indentation defines, or the words of a shell.
type indentation struct {
	text      string
	number    int  // of the line, from 1
	next      int  // offset of the next line
	continued bool // the next line continues this one
	continues bool // this line continues the last one
	indents   []int
	blocks    []int
	count     int            // of blocks and commands
	exporting *regexp.Regexp // a line whose settings are for all commands; nil: no script
	command   int            // the number of the line's command; 0: its settings are for all commands
	deeper    int            // number of enclosing branches beyond mostBlocks
}

// pathOf formats the enclosing blocks.
func pathOf(blocks []int) string {
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString("/" + strconv.Itoa(block))
	}
	return b.String()
}

func lineEnd(text string) int {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return end
	}
	return len(text)
}

// keyword tracks the branches of a script.
func (l *indentation) keyword(word string) {
	last := len(l.blocks) - 1
	l.count++
	switch word {
	case "if", "case":
		if last+1 == mostBlocks {
			l.deeper++
		} else {
			l.blocks = append(l.blocks, l.count)
		}
	case "else", "elif", "":
		if last >= 0 && l.deeper == 0 {
			l.blocks[last] = l.count
		}
	case "fi", "esac":
		if l.deeper > 0 {
			l.deeper--
		} else {
			l.blocks = l.blocks[:max(last, 0)]
		}
	}
}

// seek advances to the line of an offset.
func (l *indentation) seek(at int) {
	for l.next <= at {
		line := l.text[l.next : l.next+lineEnd(l.text[l.next:])]
		l.next += len(line) + 1
		l.number++
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case indent == len(line) || l.continued:
		case l.exporting == nil:
			l.indent(indent)
		case l.exporting.MatchString(line):
			l.command = 0
		default:
			l.count++
			l.command = l.count
		}
		l.continues, l.continued = l.continued, strings.HasSuffix(line, "\\")
	}
}

func (l *indentation) indent(indent int) {
	last := len(l.blocks) - 1
	for last >= 0 && l.indents[last] > indent {
		last--
	}
	l.indents, l.blocks = l.indents[:last+1], l.blocks[:last+1]
	if indent > 0 && (last < 0 || indent > l.indents[last]) && last+1 < mostBlocks {
		l.count++
		l.indents, l.blocks = append(l.indents, indent), append(l.blocks, l.count)
	}
}
