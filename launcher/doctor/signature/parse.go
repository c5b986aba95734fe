package signature

import (
	"slices"
	"strconv"
	"strings"
)

// parse reads a file of signatures, which tests check. A record starts with its ID at the beginning of a line. Below,
// indented by two blanks, are its fields, each a key and a value; a line that is indented further continues the value.
func parse(text string) (list []Signature) {
	var fields map[string]any // of the last record
	var last *string          // the value that may go on
	for line := range strings.SplitSeq(text, "\n") {
		value := strings.TrimSpace(line)
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case value == "" || line[0] == '#':
		case indent == 0:
			list = append(list, Signature{ID: value, Class: "user"})
			fields = list[len(list)-1].fields()
		case indent > 2:
			*last += " " + value
		default:
			key, value, _ := strings.Cut(value, " ")
			last = set(fields[key], strings.TrimSpace(value))
		}
	}
	for i := range list {
		list[i].compile()
	}
	return list
}

// fields returns the fields of a record by their keys.
func (s *Signature) fields() map[string]any {
	return map[string]any{
		"family": &s.Family, "means": &s.Means, "cause": &s.Cause, "check": &s.Check, "fix": &s.Fix, "hint": &s.Hint,
		"class": &s.Class, "line": &s.Lines, "unless": &s.Unless, "example": &s.Examples, "vague": &s.Vague, "ask": &s.Ask,
		"code": &s.Codes, "see": &s.Variables, "signal": &s.Signals, "status": &s.Statuses, "kind": &s.Kind,
	}
}

// set sets a field, or adds to a list. It returns the text that the next line may continue.
func set(field any, value string) *string {
	switch to := field.(type) {
	case *string:
		*to = value
		return to
	case *[]string:
		*to = append(*to, value)
	case *[]int:
		n, err := strconv.Atoi(value)
		must(err)
		*to = append(*to, n)
	case *Kind:
		*to = Kind(slices.Index(kindNames[:], value))
	default:
		panic("signature: " + value + " has no such key")
	}
	return nil
}

func must(err error) {
	if err != nil {
		panic(err) // the tests read all files
	}
}

// compile completes a record: it makes what lines are compared with.
func (s *Signature) compile() {
	if s.NoHint = s.Hint == "none"; s.NoHint {
		s.Hint = ""
	}
	s.Variables = strings.Fields(strings.Join(s.Variables, " "))
	for _, line := range s.Lines {
		compiled, err := compile(line)
		must(err)
		s.patterns = append(s.patterns, compiled)
	}
	for _, other := range s.Unless {
		s.unless = append(s.unless, lower(other))
	}
}
