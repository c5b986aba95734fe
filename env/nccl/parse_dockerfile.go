package nccl

import (
	"encoding/json"
	"slices"
	"strings"
)

// parseDockerfile returns what a Dockerfile sets: ENV in both forms, and what the
// commands of RUN, CMD and ENTRYPOINT set for themselves.
func parseDockerfile(text string) (found []Assignment) {
	for _, in := range instructions(text) {
		name, rest := cutBlank(strings.TrimLeft(in.text, " \t"))
		switch strings.ToUpper(name) {
		case "ENV":
			found = append(found, dockerEnv(rest, in.line)...)
		case "RUN", "CMD", "ENTRYPOINT":
			found = append(found, dockerCommand(rest, in.line)...)
		case "ONBUILD":
			for _, a := range parseDockerfile(rest) {
				a.Line = in.line
				found = append(found, a)
			}
		}
	}
	return found
}

// instruction is one of a Dockerfile's, with the lines that continue it; line is its
// first one's number.
type instruction struct {
	text string
	line int
}

// cutBlank splits a text at its first blanks, of which a continued line's end is one.
func cutBlank(text string) (before, after string) {
	if i := strings.IndexAny(text, " \t\n"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

// instructions splits a Dockerfile. A line that ends with the escape character goes on
// in the next one; comments between do not end it. Texts that RUN, COPY or ADD read from
// the lines below (<<EOF) belong to the instruction.
func instructions(text string) (all []instruction) {
	escape := "\\"
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(strings.ReplaceAll(first, " ", ""), "#escape=`") {
		escape = "`"
	}
	number, begun := 0, false
	var until []string // where the texts end
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case len(until) > 0:
			all[len(all)-1].text += "\n" + line
			if trimmed == until[0] {
				until = until[1:]
			}
			continue
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
			if begun {
				all[len(all)-1].text += "\n" // the lines are counted
			}
			continue
		}
		body, goesOn := strings.CutSuffix(strings.TrimRight(line, " \t"), escape)
		if begun {
			all[len(all)-1].text += "\n" + body
		} else {
			all = append(all, instruction{body, number})
		}
		if begun = goesOn; !begun {
			until = documentsOf(all[len(all)-1].text)
		}
	}
	return all
}

// documentsOf are the words at which the texts end that an instruction reads from the
// lines below. << within a word (1<<2) and <<< are none.
func documentsOf(text string) (ends []string) {
	words := strings.Fields(text)
	if len(words) == 0 || !slices.Contains([]string{"RUN", "COPY", "ADD"}, strings.ToUpper(words[0])) {
		return nil
	}
	for _, w := range words[1:] {
		end, found := strings.CutPrefix(strings.TrimLeft(w, "0123456789"), "<<")
		if end = strings.Trim(strings.TrimPrefix(end, "-"), `"'`); found && end != "" && !strings.Contains(end, "<") {
			ends = append(ends, end)
		}
	}
	return ends
}

// dockerEnv reads "A=b C=d", in which quotes and blanks are as a shell's, or "A b", whose
// value goes on to the end and has no line ends in it.
func dockerEnv(rest string, line int) []Assignment {
	name, value := cutBlank(rest)
	if isName(name) {
		value = strings.TrimSpace(strings.ReplaceAll(value, "\n", ""))
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && strings.IndexByte(value[1:], value[0]) == n-2 {
			value = value[1 : n-1]
		}
		return []Assignment{{Name: name, Value: value, Computed: strings.Contains(value, "$"), Line: line}}
	}
	found := settings(plainWords(rest, line))
	for i := range found {
		found[i].Local = false
	}
	return found
}

// dockerCommand reads a list of words in JSON, or a shell's line.
func dockerCommand(rest string, line int) []Assignment {
	var list []string
	if strings.HasPrefix(rest, "[") && json.Unmarshal([]byte(rest), &list) == nil {
		words := make([]word, len(list))
		for i, text := range list {
			words[i] = word{text: text, line: line}
		}
		found := settings(words)
		for i, text := range list { // ["sh", "-c", "A=b program"]
			if i > 0 && strings.HasSuffix(list[i-1], "c") && strings.HasPrefix(list[i-1], "-") {
				found = append(found, shifted(parseShell(text), line)...)
			}
		}
		return found
	}
	return shifted(parseShell(rest), line)
}

// shifted counts lines from the one that a text begins on.
func shifted(found []Assignment, line int) []Assignment {
	for i := range found {
		found[i].Line += line - 1
	}
	return found
}
