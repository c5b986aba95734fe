package nccl

import (
	"strings"
)

// Tables returns the tables of docs/reference/nccl.md, generated from the data.
func Tables() string {
	var b strings.Builder
	groups := []struct {
		title, text string
		fits        func(v Variable) bool
	}{
		{"NCCL", "RCCL reads these, too, as far as it is as new. **job**: equal on all ranks; **host**: may differ between " +
			"hosts; **log**: what is printed, and nothing else.", func(v Variable) bool {
			return v.Library == NCCL && (v.Status == Live || v.Status == Deprecated)
		}},
		{"RCCL and ROCm", "", func(v Variable) bool { return (v.Library == RCCL || v.Library == "ROCm") && v.Alive() }},
		{"CUDA and OpenMP", "", func(v Variable) bool { return v.Library == "CUDA" || v.Library == "OpenMP" }},
		{"PyTorch, Gloo and TensorPipe", "", func(v Variable) bool {
			return (v.Library == PyTorch || v.Library == Gloo || v.Library == "TensorPipe") && v.Alive()
		}},
		{"UCX and MPI libraries", "", func(v Variable) bool {
			return v.Alive() && (v.Library == "UCX" || v.Library == "Open MPI" || v.Library == "MPICH" ||
				v.Library == "Intel MPI")
		}},
	}
	done := make(map[string]bool)
	for _, g := range groups {
		b.WriteString("\n### " + g.title + "\n\n")
		if g.text != "" {
			b.WriteString(g.text + "\n\n")
		}
		b.WriteString("| variable | meaning | default | values | since | differs | gorun |\n" +
			"| --- | --- | --- | --- | --- | --- | --- |\n")
		for _, v := range database().variables {
			if g.fits(v) {
				done[v.Name] = true
				line(&b, v.Name, v.Meaning, v.Default, v.Values, v.Since.String(), string(v.Scope), handling(v))
			}
		}
	}
	b.WriteString(
		"\n### Plugins, fabrics, build tools and the system\n\n| variable | read by | meaning |\n| --- | --- | --- |\n")
	for _, v := range database().variables {
		if !done[v.Name] && v.Library != NCCL && v.Alive() {
			line(&b, v.Name, string(v.Library), v.Meaning)
		}
	}
	b.WriteString("\n### Undocumented\n\n" +
		"NCCL reads these, and its guide does not name them: they may go with any version.\n\n" +
		"| variable | meaning | default | since |\n| --- | --- | --- | --- |\n")
	for _, v := range database().variables {
		if v.Library == NCCL && v.Status == Undocumented {
			line(&b, v.Name, v.Meaning, v.Default, v.Since.String())
		}
	}
	b.WriteString("\n### Gone, or never there\n\n| variable | of | gone since | what to do |\n| --- | --- | --- | --- |\n")
	for _, v := range database().variables {
		if !v.Alive() {
			until := v.Until.String()
			if v.Status == Never {
				until = "never existed"
			}
			line(&b, v.Name, string(v.Library), until, v.Advice)
		}
	}
	return b.String()
}

// handling describes how gorun sets a variable.
func handling(v Variable) string {
	return strings.TrimSpace(string(v.Gorun) + " " + v.How)
}

func code(text string) string { return "`" + text + "`" }

// line writes the row of a variable, with an anchor. It escapes vertical bars, which would end a cell.
func line(b *strings.Builder, name string, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(c)
	}
	b.WriteString(`| <a id="` + name + `"></a>` + code(name) + " | " + strings.Join(cells, " | ") + " |\n")
}
