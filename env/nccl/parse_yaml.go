package nccl

import (
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML returns what the documents of a YAML text set: what stands below a key with "env" in it, what commands set,
// and variables of NCCL's wherever they are. The error says why the rest of the text is not known.
func parseYAML(text string) ([]Assignment, error) {
	decoder, t := yaml.NewDecoder(strings.NewReader(withoutTemplates(text))), tree{}
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return t.found, nil
		}
		if err != nil {
			return t.found, err
		}
		for _, n := range document.Content {
			t.node("", n)
		}
	}
}

// parseJSON does that with JSON, which is YAML where it has no remarks.
func parseJSON(text string) ([]Assignment, error) { return parseYAML(withoutRemarks(text)) }

// withoutTemplates has a $, a value that is not known, in the place of Helm's {{ }}; where they stand alone they choose
// and repeat lines.
func withoutTemplates(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		var made strings.Builder
		for {
			before, rest, found := strings.Cut(line, "{{")
			_, after, ended := strings.Cut(rest, "}}")
			if !found || !ended {
				break
			}
			made.WriteString(before + "$")
			line = after
		}
		known := made.Len() > 0
		if made.WriteString(line); known && strings.Trim(made.String(), " $\r\n") == "" {
			b.WriteByte('\n')
			continue
		}
		b.WriteString(made.String())
	}
	return b.String()
}

// withoutRemarks has blanks in the place of JSON's remarks, // and /* */, as VS Code writes them, and of tabs.
func withoutRemarks(text string) string {
	b := []byte(text)
	blank := func(from, to int) {
		for ; from < to; from++ {
			if b[from] != '\n' {
				b[from] = ' '
			}
		}
	}
	for i := 0; i < len(b); i++ {
		rest := text[i:]
		switch {
		case b[i] == '\t':
			b[i] = ' '
		case b[i] == '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case strings.HasPrefix(rest, "//"):
			end := i + lineEnd(rest)
			blank(i, end)
			i = end - 1
		case strings.HasPrefix(rest, "/*"):
			end := len(b)
			if at := strings.Index(rest, "*/"); at >= 0 {
				end = i + at + 2
			}
			blank(i, end)
			i = end - 1
		}
	}
	return string(b)
}

// tree finds settings in what was read.
type tree struct {
	found    []Assignment
	branches int
}

// scripts are the keys whose texts are commands.
var scripts = []string{
	"command", "args", "arg", "entrypoint", "cmd", "run", "script", "prelaunch", "postlaunch",
	"startup_script", "main",
}

// node takes what a piece below a key sets. What stands elsewhere and is referred to is taken there.
func (t *tree) node(key string, n *yaml.Node) {
	lower := strings.ToLower(key)
	switch environment := strings.Contains(lower, "env"); {
	case n.Kind == yaml.ScalarNode:
		if slices.Contains(scripts, lower) {
			t.script(n)
		}
	case environment:
		t.environment(key, n)
	case n.Kind == yaml.MappingNode:
		for k, item := range pairs(n) {
			if value := referred(item); value.Kind == yaml.ScalarNode && isOurs(k.Value) {
				t.set(k, value)
			} else {
				t.node(k.Value, item)
			}
		}
	case n.Kind == yaml.SequenceNode:
		t.list(key, lower, n)
	}
}

// pairs are the keys of a mapping with what they have.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// referred is what a piece is, or refers to.
func referred(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isOurs reports whether a name is that of a variable by itself, wherever it stands.
func isOurs(name string) bool {
	_, found := Lookup(name)
	return isName(name) && (found || strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "RCCL_"))
}

// environment takes NAME: value, NAME=VALUE, and pairs of name and value, which hold together.
func (t *tree) environment(key string, n *yaml.Node) {
	t.branches++
	switch n.Kind {
	case yaml.MappingNode:
		for k, item := range pairs(n) {
			if value := referred(item); value.Kind == yaml.ScalarNode && isName(k.Value) {
				t.set(k, value)
			} else {
				t.node(k.Value, item)
			}
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			switch item.Kind {
			case yaml.MappingNode:
				t.pair(item)
			case yaml.ScalarNode:
				if name, value, found := strings.Cut(item.Value, "="); found && isName(name) {
					t.set(&yaml.Node{Value: name, Line: item.Line}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
				}
			default:
				t.node(key, item)
			}
		}
	}
}

// pair takes - name: A, value: b; where the value comes from elsewhere it is not known.
func (t *tree) pair(n *yaml.Node) {
	name, value := &yaml.Node{}, &yaml.Node{Kind: yaml.ScalarNode, Value: "$"}
	for k, item := range pairs(n) {
		switch strings.ToLower(k.Value) {
		case "name", "key":
			name = item
		case "value":
			value = referred(item)
		}
	}
	if name.Kind == yaml.ScalarNode && isName(name.Value) {
		t.set(name, value)
	}
}

func (t *tree) set(name, value *yaml.Node) {
	a := Assignment{Name: name.Value, Value: value.Value, Line: name.Line}
	a.Computed = value.Kind != yaml.ScalarNode || value.Tag == "!!null" || strings.Contains(value.Value, "$")
	if t.branches > 0 {
		a.branch = "/i" + strconv.Itoa(t.branches)
	}
	t.found = append(t.found, a)
}

// list takes what the words of a command set, and what stands below.
func (t *tree) list(key, lower string, n *yaml.Node) {
	var words []word
	before := ""
	for _, item := range n.Content {
		switch {
		case item.Kind != yaml.ScalarNode:
			t.node(key, item)
		case strings.HasPrefix(before, "-") && strings.HasSuffix(before, "c"), strings.Contains(item.Value, "\n"):
			t.script(item)
		default:
			words = append(words, word{text: item.Value, line: item.Line, computed: strings.Contains(item.Value, "$")})
		}
		before = item.Value
	}
	if slices.Contains(scripts, lower) {
		t.add(settings(words), 0)
	}
}

// script takes what a text sets that a shell runs.
func (t *tree) script(n *yaml.Node) {
	before := n.Line - 1
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // it begins below its mark
		before++
	}
	t.add(parseShell(n.Value), before)
}

// add takes what a script sets, which begins on the line behind another.
func (t *tree) add(found []Assignment, before int) {
	t.branches++
	for _, a := range found {
		a.Line += before
		a.branch = "/i" + strconv.Itoa(t.branches) + a.branch
		t.found = append(t.found, a)
	}
}
