package nccl

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// Assignment is a variable that is set somewhere.
type Assignment struct {
	// Kind and File say where, Line counts from 1; 0: the place has no lines.
	Kind  SourceKind `json:"-"`
	File  string     `json:"file,omitempty"`
	Line  int        `json:"line,omitempty"`
	Name  string     `json:"name"`
	Value string     `json:"value"`
	// Computed says that the value is not known from the text: $PORT.
	Computed bool `json:"-"`
	// Local says that a script sets it for itself: nothing exports it.
	Local bool `json:"-"`
	// Unused says that a Local one is not read by the script either, as far as its text tells.
	Unused bool `json:"-"`
	// branch tells what holds together: "/1/2" is in an if within an if, or for one
	// command alone, "/1/3" in its else.
	branch string
}

// within reports whether another assignment holds wherever this one does: it is not in
// another branch of a program, or for another command alone.
func (a Assignment) within(b Assignment) bool {
	return strings.HasPrefix(a.branch+"/", b.branch+"/")
}

// Shown is a value, or a piece of one, for a message: what is very long is cut, and its
// length told.
func Shown(value string) string {
	const long, kept = 200, 60 // bytes
	if len(value) <= long {
		return value
	}
	return strings.ToValidUTF8(value[:kept], "") + fmt.Sprintf("… (%d bytes)", len(value))
}

// SourceKind is a kind of text in which variables are set.
type SourceKind string

// The kinds.
const (
	FromEnvironment SourceKind = "environment" // NAME=VALUE lines, as env prints them
	FromScript      SourceKind = "script"      // a shell's, and a batch script of Slurm's or PBS'
	FromDockerfile  SourceKind = "dockerfile"
	FromPython      SourceKind = "python"
	FromConf        SourceKind = "conf" // nccl.conf, rccl.conf
	FromYAML        SourceKind = "yaml" // manifests of Kubernetes, files of Docker Compose
	FromJSON        SourceKind = "json" // VS Code's launch.json, configurations
)

// ParseFile returns what a file sets, in its order. Its kind is told by its name or
// its content.
func ParseFile(name string, text []byte) []Assignment {
	return Parse(kindOf(name, text), name, text)
}

// Parse returns what a text of a kind sets, in its order. Nothing is executed: what only running it would tell is
// Computed, or not found. file names the text.
func Parse(kind SourceKind, file string, text []byte) []Assignment {
	var found []Assignment
	switch kind {
	case FromScript:
		found = parseShell(string(text))
	case FromConf:
		for _, s := range ParseConf(text) {
			found = append(found, Assignment{Name: s.Name, Value: s.Value, Line: s.Line})
		}
	default:
		found = parsePatterns(kind, string(text))
	}
	for i := range found {
		found[i].Kind, found[i].File = kind, file
	}
	return found
}

// Environ returns what an environment sets, NAME=VALUE entries.
func Environ(entries []string) []Assignment {
	var found []Assignment
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			found = append(found, Assignment{Name: name, Value: value, Kind: FromEnvironment})
		}
	}
	return found
}

// kindOf tells the kind of a file by its name, or by what stands in it.
func kindOf(name string, text []byte) SourceKind {
	base := strings.ToLower(path.Base(name))
	first, _, _ := bytes.Cut(text, []byte("\n"))
	switch {
	case strings.HasPrefix(base, "dockerfile") || strings.HasPrefix(base, "containerfile") ||
		strings.HasSuffix(base, ".dockerfile"):
		return FromDockerfile
	case strings.HasSuffix(base, ".py") || bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte("python")):
		return FromPython
	case strings.HasSuffix(base, "nccl.conf") || strings.HasSuffix(base, "rccl.conf"):
		return FromConf
	case strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".yml"):
		return FromYAML
	case strings.HasSuffix(base, ".json") || strings.HasSuffix(base, ".jsonc"):
		return FromJSON
	case bytes.HasPrefix(first, []byte("#!")) || strings.HasSuffix(base, ".sh") || strings.HasSuffix(base, ".sbatch") ||
		strings.HasSuffix(base, ".slurm"):
		return FromScript
	}
	return kindOfText(string(text))
}

// kindOfText tells the kind of a text without a name: the first line that says
// something decides, but for an environment all lines do.
func kindOfText(text string) SourceKind {
	settings := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		word, _, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case word == "FROM" || word == "ARG":
			return FromDockerfile
		case word == "import" || word == "from" && strings.Contains(line, " import ") ||
			strings.HasPrefix(line, "os.environ"):
			return FromPython
		case line == "{" || strings.HasPrefix(line, `{"`):
			return FromJSON
		case line == "---" || word == "apiVersion:" || word == "services:":
			return FromYAML
		}
		if name, _, found := strings.Cut(line, "="); !found || !isName(name) {
			settings = false
		}
	}
	if settings {
		return FromEnvironment
	}
	return FromScript
}

// isName reports whether a shell takes a text for the name of a variable.
func isName(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
