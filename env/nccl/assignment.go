package nccl

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// Assignment is one setting of a variable in a file or environment.
type Assignment struct {
	// Kind, File and Line are the source of the assignment. Line counts from 1; 0 means that the source has no
	// lines.
	Kind  SourceKind `json:"-"`
	File  string     `json:"file,omitempty"` // path of the file; absent for the environment
	Line  int        `json:"line,omitempty"` // counts from 1; absent for sources without lines
	Name  string     `json:"name"`           // of the variable
	Value string     `json:"value"`          // as set, quotes removed
	// Computed reports that the value is not known from the text, as in $PORT.
	Computed bool `json:"-"`
	// Local reports that a script sets the variable without exporting it.
	Local bool `json:"-"`
	// Unused reports that the script does not read a Local variable either, as far as its text shows.
	Unused bool `json:"-"`
	// branch identifies assignments that hold together: "/1/2" is in an if within an if, or for a single
	// command; "/1/3" is in its else.
	branch string
}

// within reports whether b holds wherever a does: b is not in another branch, or for another command alone.
func (a Assignment) within(b Assignment) bool {
	return strings.HasPrefix(a.branch+"/", b.branch+"/")
}

// Shown returns a value, or part of one, for a message. It truncates a long value and appends its length.
func Shown(value string) string {
	const long, kept = 200, 60 // bytes
	if len(value) <= long {
		return value
	}
	return strings.ToValidUTF8(value[:kept], "") + fmt.Sprintf("… (%d bytes)", len(value))
}

// SourceKind is a kind of text in which variables are set.
type SourceKind string

// Kinds of text.
const (
	FromEnvironment SourceKind = "environment" // NAME=VALUE lines, as env prints them
	FromScript      SourceKind = "script"      // shell scripts, including batch scripts of Slurm and PBS
	FromDockerfile  SourceKind = "dockerfile"
	FromPython      SourceKind = "python"
	FromConf        SourceKind = "conf" // nccl.conf, rccl.conf
	FromYAML        SourceKind = "yaml" // Kubernetes manifests and Docker Compose files
	FromJSON        SourceKind = "json" // such as launch.json of VS Code
)

// ParseFile returns the assignments in a file, in order. It detects the kind from the name or the content.
func ParseFile(name string, text []byte) []Assignment {
	return Parse(kindOf(name, text), name, text)
}

// Parse returns the assignments in a text of a kind, in order. It executes nothing: it marks values that
// depend on execution as Computed, or misses them. file names the text.
func Parse(kind SourceKind, file string, text []byte) []Assignment {
	var found []Assignment
	switch kind {
	case FromConf:
		found = parseConf(text)
	default:
		found = parsePatterns(kind, string(text))
	}
	for i := range found {
		found[i].Kind, found[i].File = kind, file
	}
	return found
}

// Environ returns the assignments of an environment, given as NAME=VALUE entries.
func Environ(entries []string) []Assignment {
	var found []Assignment
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			found = append(found, Assignment{Name: name, Value: value, Kind: FromEnvironment})
		}
	}
	return found
}

// kindOf detects the kind of a file from its name or its content.
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

// kindOfText detects the kind of a text without a name from its first distinctive line; an environment must
// have only NAME=VALUE lines.
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

// isName reports whether a shell accepts a text as the name of a variable.
func isName(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
