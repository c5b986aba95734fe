package dialect

import (
	"fmt"
	"iter"
	"strings"

	"github.com/urfave/cli/v2"
)

// Shells have a completion.
var Shells = []string{"bash", "zsh", "fish"}

// Completion returns a script that completes the dialect's options and their values, then the program as any command.
// For gorun's own dialect it also completes gorun's commands, and the name torchrun. urfave/cli's own scripts start
// gorun for each key, and stop at the first operand.
func (d *Dialect) Completion(shell string, commands []*cli.Command) string {
	all := []completion{{d.Name, d.Options, nil}}
	switch d {
	case Launch:
		all[0].command = "torch.distributed.launch"
	case Gorun:
		all[0].commands = commands
		all = append(all, completion{Torchrun.Name, Torchrun.Options, nil})
	}
	if shell == "zsh" {
		return zshScript(all)
	}
	var script strings.Builder
	for _, c := range all {
		if shell == "fish" {
			script.WriteString(c.fish())
		} else {
			script.WriteString(c.bash())
		}
	}
	return script.String()
}

// completion writes the scripts of one command.
type completion struct {
	command  string
	options  iter.Seq[*Option]
	commands []*cli.Command
}

// offered yields the options of the help.
func (c completion) offered(yield func(*Option) bool) {
	for o := range c.options {
		if o.Group < numHelpGroups && !yield(o) {
			return
		}
	}
}

// shown returns the names of an option in the help.
func (o *Option) shown() []string {
	if short := o.short(); short != "" && short != o.Names[0] {
		return []string{Spelling(short), Spelling(o.Names[0])}
	}
	return []string{Spelling(o.Names[0])}
}

// typed returns all names with one and two dashes, to find where the program begins.
func (o *Option) typed() []string {
	var all []string
	for _, n := range o.Names {
		all = append(all, "-"+n, "--"+n)
		if under := strings.ReplaceAll(n, "-", "_"); under != n {
			all = append(all, "-"+under, "--"+under)
		}
	}
	return all
}

// function returns the name of the shell function.
func (c completion) function() string { return "_" + strings.ReplaceAll(c.command, ".", "_") }

// valued returns the names of all options with a value, including refused ones.
func (c completion) valued(separator string) string {
	var all []string
	for o := range c.options {
		if o.TakesValue() {
			all = append(all, o.typed()...)
		}
	}
	return strings.Join(all, separator)
}

func (c completion) bash() string {
	var names []string
	var cases strings.Builder
	for o := range c.offered {
		names = append(names, o.shown()...)
		switch pattern := strings.Join(o.typed(), "|"); {
		case len(o.choices()) > 0:
			fmt.Fprintf(&cases, "\t%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); return ;;\n", pattern,
				strings.Join(o.choices(), " "))
		case o.Dirs:
			fmt.Fprintf(&cases,
				"\t%s) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); return ;;\n", pattern)
		}
	}
	var first []string
	others := ""
	for _, command := range c.commands {
		first = append(first, command.Name)
		if command.Flags != nil {
			options := (&Dialect{flags: command.Flags}).Options
			others += completion{command.Name, options, nil}.bashCommand()
		}
	}
	return strings.NewReplacer("FUNCTION", c.function(), "COMMAND", c.command, "VALUED", c.valued("|"), "CASES",
		strings.TrimSuffix(cases.String(), "\n"),
		"OPTIONS", strings.Join(names, " "), "FIRST", strings.Join(first, " "), "OTHERS\n", others).Replace(bashScript)
}

// bashCommand completes a command without a program.
func (c completion) bashCommand() string {
	var names, folders []string
	for o := range c.offered {
		names = append(names, o.shown()...)
		if o.Dirs {
			folders = append(folders, o.typed()...)
		}
	}
	if folders == nil {
		folders = []string{"''"} // no word
	}
	return strings.NewReplacer("NAME", c.command, "OPTIONS",
		strings.Join(names, " "), "FOLDERS", strings.Join(folders, "|")).Replace(bashCommandScript)
}

const bashCommandScript = `	if [[ ${COMP_WORDS[1]} == NAME ]] && ((COMP_CWORD > 1)); then
		case $prev in
		FOLDERS) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
		esac
		local options='OPTIONS'
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		else
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		return
	fi
`

const bashScript = `# bash completion for COMMAND: source <(COMMAND --print-completion bash)
FUNCTION() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
	COMPREPLY=()
OTHERS
	# bash splits --name=value into three words
	if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) ((i++)); break ;;
		VALUED)
			[[ ${COMP_WORDS[i+1]} == = ]] && ((i++))
			((i++)) ;;
		-*|=) ;;
		*) break ;;
		esac
	done
	if ((i < COMP_CWORD)); then # the program's own arguments
		if declare -F _command_offset >/dev/null; then _command_offset "$i"; return; fi
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
	fi
	case $prev in
CASES
	VALUED)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return ;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'OPTIONS' -- "$cur")
		return
	fi
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(
		((COMP_CWORD == 1)) && compgen -W 'FIRST' -- "$cur"
		[[ -n $cur ]] && compgen -c -- "$cur"
		compgen -f -- "$cur"
	)
}
complete -F FUNCTION COMMAND
`

func (c completion) zsh() string {
	var specs strings.Builder
	for o := range c.offered {
		names, quote := o.shown(), strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`)
		value := ""
		switch {
		case !o.TakesValue():
		case len(o.choices()) > 0:
			value = ":" + quote.Replace(o.Value) + ":(" + strings.Join(o.choices(), " ") + ")"
		case o.Dirs:
			value = ":" + quote.Replace(o.Value) + ":_directories"
		default:
			value = ":" + quote.Replace(o.Value) + ":_files"
		}
		for _, n := range names {
			fmt.Fprintf(&specs, "\t\t'(%s)%s[%s]%s' \\\n", strings.Join(names, " "), n, quote.Replace(o.Help), value)
		}
	}
	return strings.NewReplacer("FUNCTION", c.function(), "COMMAND", c.command, "SPECS",
		strings.TrimSuffix(specs.String(), "\n")).Replace(zshFunction)
}

const zshFunction = `FUNCTION() {
	_arguments -S \
SPECS
		'(-):program:_alternative "commands:command:_command_names -e" "files:file:_files"' \
		'*::arguments:_normal'
}
compdef FUNCTION COMMAND
`

// zshScript returns one script for several commands. It can be sourced; or zsh loads it as the first command's
// function, which has to complete all of them.
func zshScript(all []completion) string {
	var functions, cases strings.Builder
	commands := make([]string, len(all))
	for i, c := range all {
		commands[i] = c.command
		functions.WriteString(c.zsh())
		fmt.Fprintf(&cases, "\t%s) %s \"$@\" ;;\n", c.command, c.function())
	}
	return fmt.Sprintf("#compdef %s\n# zsh completion for %s: source <(%s --print-completion zsh)\n"+
		"%sif [[ $funcstack[1] == %s ]]; then\n\tcase $service in\n%s\tesac\nfi\n",
		strings.Join(commands, " "), strings.Join(commands, " and "), commands[0], functions.String(), all[0].function(),
		cases.String())
}

func (c completion) fish() string {
	var lines strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, "'", `\'`)
	for o := range c.offered {
		fmt.Fprintf(&lines, "complete -c %s -n _%s", c.command, c.function())
		for _, n := range o.shown() {
			if name := strings.TrimLeft(n, "-"); len(name) == 1 {
				lines.WriteString(" -s " + name)
			} else {
				lines.WriteString(" -l " + name)
			}
		}
		switch {
		case !o.TakesValue():
		case len(o.choices()) > 0:
			fmt.Fprintf(&lines, " -x -a '%s'", strings.Join(o.choices(), " "))
		default:
			lines.WriteString(" -r")
		}
		fmt.Fprintf(&lines, " -d '%s'\n", quote.Replace(o.Help))
	}
	return strings.NewReplacer("FUNCTION", c.function(), "COMMAND", c.command, "VALUED", c.valued(" "), "LINES",
		strings.TrimSuffix(lines.String(), "\n")).Replace(fishScript)
}

const fishScript = `# fish completion for COMMAND: COMMAND --print-completion fish | source
function _FUNCTION # whether the program is still to come
	set -l words (commandline -opc)
	set -e words[1]
	while set -q words[1]
		switch $words[1]
			case --
				return 1
			case VALUED
				set -e words[1]
			case '-*'
			case '*'
				return 1
		end
		set -e words[1]
	end
	return 0
end
LINES
complete -c COMMAND -n _FUNCTION -a '(__fish_complete_command)'
`
