package main

import (
	"fmt"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/internal/version"
)

// lineOfGorun says in the script why its last line is as it is.
const lineOfGorun = `
# One gorun for all nodes: it starts the others' by srun, and finds hosts, slots and GPUs in Slurm's variables.
# exec puts it in place of this shell, to which alone Slurm sends the signal of --signal=B:...; gorun passes it ` +
	`to every rank.
`

// script is a script for sbatch that starts the job by the gorun with that path.
func (o *sbatchOptions) script(gorun string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "#!/bin/bash\n# Written by gorun sbatch, version %s.\n", version.String())
	for _, option := range slices.Concat(o.defaults, o.asked) {
		text.WriteString("#SBATCH " + sbatchQuote(option) + "\n")
	}
	text.WriteString(lineOfGorun + "exec " + shellwords.Quote(gorun))
	for _, word := range o.line {
		text.WriteString(" " + shellwords.Quote(word))
	}
	return text.String() + "\n"
}

// sbatchQuote is a word as sbatch reads it back from a line of a script: it knows quotes and backslashes, and a #
// begins a comment.
func sbatchQuote(option string) string {
	name, value, given := strings.Cut(option, "=")
	if !given {
		return name
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool {
		return r >= 0x80 || !shellwords.Plain(byte(r)) && !strings.ContainsRune("[]*&|()", r)
	}) < 0 {
		return option
	}
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
