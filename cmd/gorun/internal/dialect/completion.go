package dialect

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Shells have a completion.
var Shells = []string{"bash", "zsh", "fish"}

// Completion returns a script that has gorun complete command lines of the dialect. Gorun's own script is also for
// torchrun, and for the names of MPI's launchers where these are gorun.
func (d *Dialect) Completion(shell string) string {
	names, command := d.Name, d.Name+" --print-completion"
	switch d {
	case Launch, Run:
		names = "torch.distributed.launch"
	case Gorun:
		names, command = "gorun torchrun", "gorun completion"
	}
	fill := strings.NewReplacer("NAMES", names, "PRINT", command)
	script := fill.Replace(completionScripts[shell])
	if d == Gorun {
		script += mpiNames[shell]
	}
	if shell == "zsh" {
		script += zshAutoload
	}
	return script
}

// completionScripts ask gorun what may stand before the cursor. The first line of the answer is a kind of Expected, and
// the part of the word that stays or, for arguments, where the program begins; words follow.
var completionScripts = map[string]string{
	"bash": `# bash completion for NAMES: source <(PRINT bash)
_gorun() {
	local reply rest=$COMP_LINE i
	mapfile -t reply < <(command gorun completion-words bash "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
	COMPREPLY=("${reply[@]:1}")
	case ${reply[0]} in
	words*) ;;
	dirs*) compopt -o dirnames ;;
	command*)
		compopt -o filenames
		mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <([[ -n $2 ]] && compgen -c -- "$2"; compgen -f -- "$2")
		;;
	arguments*)
		if ! declare -F _command_offset >/dev/null; then compopt -o default; return; fi
		for ((i = 0; i < COMP_CWORD; i++)); do # bash splits words at = and :, too
			rest=${rest#"${rest%%[![:space:]]*}"}
			((${#COMP_LINE} - ${#rest} < ${reply[0]#* })) || break
			rest=${rest#"${COMP_WORDS[i]}"}
		done
		_command_offset "$i"
		;;
	*) compopt -o default ;;
	esac
}
complete -F _gorun NAMES
`,
	"zsh": `#compdef NAMES
# zsh completion for NAMES: source <(PRINT zsh)
_gorun() {
	local -a reply=("${(@f)$(command gorun completion-words zsh "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
	local kind=${reply[1]%% *} prefix=${reply[1]#* }
	shift reply
	if [[ $kind == arguments ]]; then
		shift $prefix words
		((CURRENT -= prefix))
		_normal
		return
	fi
	compset -p ${#prefix}
	case $kind in
	words) (($#reply)) && _describe -t words word reply ;;
	dirs) _files -/ ;;
	command)
		(($#reply)) && _describe -t commands 'gorun command' reply
		_command_names -e
		_files
		;;
	*) _files ;;
	esac
}
compdef _gorun NAMES
`,
	"fish": `# fish completion for NAMES: PRINT fish | source
function __gorun_complete
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	set -l reply (command gorun completion-words fish $words "$word" 2>/dev/null)
	set -l kind (string split -m 1 ' ' -- $reply[1])
	set -l rest (string sub -s (math 1 + (string length -- "$kind[2]")) -- "$word")
	printf '%s\n' $reply[2..]
	switch $kind[1]
		case words
		case dirs
			printf "$kind[2]%s\n" (__fish_complete_directories "$rest")
		case command
			__fish_complete_command
			complete -C "gorun-files $word" # as fish does for a program that it does not know
		case arguments
			complete -C (string join ' ' -- (string escape -- $words[(math 1 + $kind[2])..]) "$word")
		case '*'
			printf "$kind[2]%s\n" (complete -C "gorun-files $rest")
	end
end
for name in NAMES
	complete -c $name -f -a '(__gorun_complete)'
end
`,
}

// mpiNames register names that gorun install-names has linked to gorun.
var mpiNames = map[string]string{
	"bash": `for name in mpirun mpiexec; do
	[[ $(type -P $name) -ef $(type -P gorun) ]] && complete -F _gorun $name
done
unset name
`,
	"zsh": `() {
	local name
	for name in mpirun mpiexec; do
		[[ $commands[$name] -ef $commands[gorun] ]] && compdef _gorun $name
	done
}
`,
	"fish": `for name in mpirun mpiexec
	if command -q $name gorun && test (realpath (command -s $name)) = (realpath (command -s gorun))
		complete -c $name -f -a '(__gorun_complete)'
	end
end
`,
}

// zshAutoload has the script complete when zsh loads it as the function _gorun.
const zshAutoload = `[[ $funcstack[1] != _gorun ]] || _gorun "$@"
`

// Expected is what the last word of a command line may be.
type Expected struct {
	// Kind is "words", "files", "dirs", "command" or "arguments"; also "hosts", "variables" and "operand", of which the
	// caller knows the words.
	Kind   string
	Prefix string // of the word that stays: "--host=node1,"
	Words  []Candidate
	// Option is the option that the word is a value of, or nil.
	Option *Option
	// Program is the index of the program that the word is an argument of.
	Program int
}

// Candidate is a word with its description.
type Candidate struct{ Word, Help string }

// Expects tells what the last of the words after the dialect's name may be. It never fails.
func (d *Dialect) Expects(words []string) Expected {
	own := *d
	own.line = &Line{dialect: &own, tables: d.tables} // makes each row once
	return own.expects(words, false)
}

// ExpectedByCommand tells what the last of the words after a command may be. Options may follow its arguments, unless
// these are programs.
func ExpectedByCommand(c *cli.Command, programs bool, words []string) Expected {
	d := &Dialect{flags: c.Flags, mpmd: programs, line: new(Line)}
	return d.expects(words, !programs)
}

func (d *Dialect) expects(words []string, operands bool) Expected {
	last, later := len(words)-1, false
	for at := 0; at < last; {
		word := words[at]
		switch {
		case operands && (word == "--" || !looksLikeOption(word)):
			at++
		case word == "--" && at == last-1:
			return Expected{Kind: "command"}
		case word == "--":
			return Expected{Kind: "arguments", Program: at + 1}
		case !looksLikeOption(word):
			next := slices.Index(words[at:last], ":")
			if !d.mpmd || next < 0 {
				return Expected{Kind: "arguments", Program: at}
			}
			at, later = at+next+1, true
		default:
			option, _, glued := d.match(word)
			if at++; option == nil || glued || !option.TakesValue() {
				continue
			}
			if at += max(option.words, 1); at > last {
				return option.expects("", words[last])
			}
		}
	}
	word := words[last]
	if name, value, ok := strings.Cut(word, "="); ok && looksLikeOption(word) {
		if option, _, _ := d.match(name); option != nil {
			return option.expects(name+"=", value)
		}
	}
	switch {
	case strings.HasPrefix(word, "-"):
		return Expected{Kind: "words", Words: d.spellings(word, later)}
	case operands:
		return Expected{Kind: "operand"}
	}
	return Expected{Kind: "command"}
}

// expects tells what a value may be, of which the user has typed a part.
func (o *Option) expects(prefix, value string) Expected {
	e := Expected{Kind: "words", Prefix: prefix, Option: o}
	if strings.Contains(o.Value, ",...") {
		e.Prefix += value[:strings.LastIndexByte(value, ',')+1]
	}
	switch choices := o.choices(); {
	case len(choices) > 0:
		for _, choice := range choices {
			e.Words = append(e.Words, Candidate{Word: choice})
		}
	case strings.Contains(o.Value, "HOST"):
		e.Kind, e.Prefix = "hosts", prefix+value[:strings.LastIndexAny(value, ",@")+1]
	case o.Dirs:
		e.Kind = "dirs"
	case strings.Contains(o.Value, "FILE") || strings.HasPrefix(o.Value, "PATH"):
		e.Kind = "files"
	case strings.HasPrefix(o.Value, "NAME[=") && !strings.Contains(value, "="):
		e.Kind = "variables"
	}
	return e
}

// spellings returns the options that begin with a word, as the user writes them: with one dash or two, with dashes or
// underscores in the name. Later programs of a job have fewer.
func (d *Dialect) spellings(word string, later bool) (list []Candidate) {
	groups := numHelpGroups
	if d.colons {
		groups = GroupAccepted
	}
	for o := range d.Options {
		if o.Group >= groups || later && !o.block {
			continue
		}
		for _, name := range []string{o.short(), o.Name()} {
			spelled := Spelling(name)
			if name == "" || len(list) > 0 && list[len(list)-1].Word == spelled {
				continue
			}
			if strings.Contains(word, "_") {
				spelled = spelled[:2] + strings.ReplaceAll(spelled[2:], "-", "_")
			}
			if !d.strict && len(word) > 2 && word[1] != '-' {
				spelled = "-" + name
			}
			if strings.HasPrefix(spelled, word) {
				list = append(list, Candidate{spelled, o.Help})
			}
		}
	}
	return list
}
