package nccl

import (
	"regexp"
	"strings"
)

// Pieces of patterns. A name and its value are two groups; a match without groups is skipped.
const (
	anyName   = `([A-Za-z_][A-Za-z0-9_]*)`
	quoted    = `"[^"\n]*"|'[^'\n]*'`
	comment   = `(?:^|[ \t])#[^\n]*`
	wordValue = `(?:^|[\s"'({\[,;|&=])` + anyName + `=(` + quoted + `|(?:[^\s;&|()"'\\]|\\[^\n])*)`
)

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
	case FromYAML:
		return comment + `|` + mapping
	case FromJSON:
		return `(?:^|\s)//[^\n]*|/\*(?s:.*?)\*/|` + mapping
	}
	return `^` + anyName + `=([^\n]*)` // as env prints them
}

// parsePatterns returns the assignments in a text, found with the pattern of its kind. Indentation defines
// blocks, but in Dockerfiles all assignments belong together.
func parsePatterns(kind SourceKind, text string) (found []Assignment) {
	lines := indentation{text: text}
	for _, m := range regexp.MustCompile(`(?m)`+patternOf(kind)).FindAllStringSubmatchIndex(text, -1) {
		at := 2 // start of the first matching pair of groups
		for at < len(m) && m[at] < 0 {
			at += 4
		}
		if at >= len(m) {
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
		found = append(found, a)
	}
	return found
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
		computed = strings.ContainsAny(plain, "$`")
	}
	if n := len(plain); n > 1 && (plain[0] == '"' || plain[0] == '\'') && plain[n-1] == plain[0] {
		return plain[1 : n-1], computed
	}
	if kind == FromDockerfile {
		plain = strings.ReplaceAll(plain, "\\", "")
	}
	return plain, computed
}

// indentation tracks the lines of a text and its blocks, which indentation defines.
type indentation struct {
	text      string
	number    int // of the line, from 1
	next      int // offset of the next line
	continued bool
	indents   []int
	blocks    []int
	count     int
}

// seek advances to the line of an offset.
func (l *indentation) seek(at int) {
	for l.next <= at {
		line := l.text[l.next : l.next+lineEnd(l.text[l.next:])]
		l.next += len(line) + 1
		l.number++
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if indent < len(line) && !l.continued {
			l.indent(indent)
		}
		l.continued = strings.HasSuffix(line, "\\")
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
