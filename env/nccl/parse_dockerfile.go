package nccl

import (
	"encoding/json"
	"strings"
)

// parseDockerfile returns what a Dockerfile sets: ENV in both forms, and what the
// commands of RUN, CMD and ENTRYPOINT set for themselves.
func parseDockerfile(text string) (found []Assignment) {
	for _, in := range instructions(text) {
		name, rest, _ := strings.Cut(strings.TrimLeft(in.text, " \t"), " ")
		rest = strings.TrimLeft(rest, " \t")
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

// instructions splits a Dockerfile. A line that ends with the escape character goes on
// in the next one; comments between do not end it. A text that RUN or COPY reads from
// the lines below (<<EOF) belongs to the instruction.
func instructions(text string) (all []instruction) {
	escape := "\\"
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(strings.ReplaceAll(first, " ", ""), "#escape=`") {
		escape = "`"
	}
	number, begun, until := 0, false, ""
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case until != "":
			all[len(all)-1].text += "\n" + line
			if trimmed == until {
				until = ""
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
		begun = goesOn
		if _, document, found := strings.Cut(body, "<<"); found && !goesOn && len(strings.Fields(document)) > 0 {
			until = strings.Trim(strings.TrimPrefix(strings.Fields(document)[0], "-"), `"'`)
		}
	}
	return all
}

// dockerEnv reads "A=b C=d", in which quotes and blanks are as a shell's, or "A b".
func dockerEnv(rest string, line int) []Assignment {
	name, value, _ := strings.Cut(rest, " ")
	if isName(name) {
		computed := strings.Contains(value, "$")
		return []Assignment{{Name: name, Value: strings.TrimSpace(value), Computed: computed, Line: line}}
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
