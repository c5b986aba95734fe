package main

import (
	"fmt"
	"slices"
	"strings"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/version"
)

// lineOfGorun says in the script why its last line is as it is.
const lineOfGorun = `
# One gorun for all nodes: it starts the others' by srun, and finds hosts, slots and GPUs in Slurm's variables.
# exec puts it in place of this shell, to which alone Slurm sends the signal of --signal=B:...; gorun passes it to every rank.
`

// batchScript is a script for sbatch that starts the job by the gorun with that path.
func batchScript(b dialect.BatchWish, gorun string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "#!/bin/bash\n# Written by gorun sbatch, version %s.\n", version.String())
	for _, option := range slices.Concat(b.Defaults, b.Asked) {
		text.WriteString("#SBATCH " + sbatchQuote(option) + "\n")
	}
	text.WriteString(lineOfGorun + "exec " + shellQuote(gorun))
	for _, word := range b.Line {
		text.WriteString(" " + shellQuote(word))
	}
	return text.String() + "\n"
}

// plainInShell are the bytes beside letters and digits that mean nothing to a shell anywhere in a word.
const plainInShell = "+,-./:=@_%"

func isPlain(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(plainInShell, c) >= 0
}

// isControl: a script cannot hold \r\n, which sbatch refuses, and a newline should not look like the end of a line.
func isControl(c byte) bool { return c < ' ' || c == 0x7f }

// shellQuote is a word as bash reads it back, in one line.
func shellQuote(word string) string {
	plain, control := word != "", false
	for i := range len(word) {
		plain = plain && isPlain(word[i])
		control = control || isControl(word[i])
	}
	switch {
	case plain:
		return word
	case !control:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case isControl(c):
			fmt.Fprintf(&b, `\%03o`, c)
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// sbatchQuote is a word as sbatch reads it back from a line of a script: it knows quotes and backslashes, and a # begins a comment.
func sbatchQuote(option string) string {
	name, value, given := strings.Cut(option, "=")
	if !given {
		return name
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return r >= 0x80 || !isPlain(byte(r)) && !strings.ContainsRune("[]*&|()", r) }) < 0 {
		return option
	}
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
