package output

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/internal/printable"
)

// Template is the prefix of a line, written in torchrun's --log-line-prefix-template language, which is Python's
// string.Template: ${name} or $name is a rank's property, $$ a dollar sign, any other $ stands for itself.
// The zero Template is empty: no template was given.
type Template struct {
	parts []templatePart
}

// templatePart is text that stands for itself, or the name of a property.
type templatePart struct {
	text string
	name string
}

// Empty tells whether there is no template.
func (t Template) Empty() bool { return len(t.parts) == 0 }

// ParseTemplate reads a template. The names are role_name, local_rank, rank and hostname. An unknown name is an error
// here; torchrun leaves it in every line as it is.
func ParseTemplate(s string) (Template, error) {
	var t Template
	for rest := s; rest != ""; {
		dollar := strings.IndexByte(rest, '$')
		if dollar < 0 {
			t.parts = append(t.parts, templatePart{text: rest})
			break
		}
		if dollar > 0 {
			t.parts = append(t.parts, templatePart{text: rest[:dollar]})
		}
		part, size := parsePlaceholder(rest[dollar:])
		if part.name != "" && !knownName(part.name) {
			return Template{},
				fmt.Errorf("--log-line-prefix-template %q: unknown name %q; known are ${role_name}, ${local_rank}, ${rank} and "+
					"${hostname}",
					s, rest[dollar:dollar+size])
		}
		t.parts = append(t.parts, part)
		rest = rest[dollar+size:]
	}
	return t, nil
}

// parsePlaceholder reads what begins with the dollar sign at s[0], and its size in bytes.
func parsePlaceholder(s string) (templatePart, int) {
	if strings.HasPrefix(s, "$$") {
		return templatePart{text: "$"}, 2
	}
	if n := identifier(s[1:]); n > 0 {
		return templatePart{name: s[1 : 1+n]}, 1 + n
	}
	if strings.HasPrefix(s, "${") {
		if n := identifier(s[2:]); n > 0 && strings.HasPrefix(s[2+n:], "}") {
			return templatePart{name: s[2 : 2+n]}, n + 3
		}
	}
	return templatePart{text: "$"}, 1
}

// identifier returns the length of the Python identifier (ASCII letters, digits, underscores) that s begins with.
func identifier(s string) int {
	for i := range len(s) {
		letter := s[i] == '_' || 'a' <= s[i]|0x20 && s[i]|0x20 <= 'z'
		digit := '0' <= s[i] && s[i] <= '9'
		if !letter && (!digit || i == 0) {
			return i
		}
	}
	return len(s)
}

func knownName(name string) bool {
	switch name {
	case "role_name", "local_rank", "rank", "hostname":
		return true
	}
	return false
}

// expand returns the template with a rank's properties filled in.
func (t Template) expand(r RankInfo) string {
	var b strings.Builder
	for _, part := range t.parts {
		b.WriteString(part.text)
		switch part.name {
		case "role_name":
			b.WriteString(printable.Text(r.Role))
		case "local_rank":
			b.WriteString(strconv.Itoa(r.LocalRank))
		case "rank":
			b.WriteString(strconv.Itoa(r.Rank))
		case "hostname":
			b.WriteString(printable.Text(shortHost(r.Host)))
		}
	}
	return b.String()
}

// shortHost returns a host's name up to the first dot, and addresses as they are.
func shortHost(host string) string {
	name, _, dotted := strings.Cut(host, ".")
	if !dotted || strings.Trim(host, "0123456789.") == "" || strings.Contains(host, ":") {
		return host
	}
	return name
}
