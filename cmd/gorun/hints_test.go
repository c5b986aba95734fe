package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/testneeds"
)

// A message is a string in the code of gorun. Values are replaced by X, or by 7 where they are numbers.
type message struct {
	place, text string
	// role is "hint" for what to do about an error, "fix" for a command, "instead" for advice within another sentence,
	// "prose" for what is not checked, and "" for other strings.
	role string
}

// roleOf returns the role of what a field, variable, parameter, result or function of some name holds.
func roleOf(name string) string {
	switch name {
	case "Description", "UsageText", "prefix", "Prefix", "TorchHint":
		return "prose"
	}
	switch name = strings.ToLower(name); {
	case name == "fix":
		return "fix"
	case strings.HasSuffix(name, "instead"), strings.HasSuffix(name, "advice"):
		return "instead"
	case strings.HasSuffix(name, "hint"):
		return "hint"
	}
	return ""
}

// messages finds the strings of a package.
type messages struct {
	positions *token.FileSet
	root      string
	roles     map[string]map[int]string // functions of the package: the roles of their parameters
	seen      map[ast.Node]bool
	all       []message
}

// codeMessages returns all strings in the code that makes up gorun, without its tests.
func codeMessages(t *testing.T) []message {
	t.Helper()
	m := messages{positions: token.NewFileSet(), root: testneeds.Repository(t), seen: map[ast.Node]bool{}}
	for _, room := range []string{"cmd", "launcher", "placement", "rendezvous", "env", "comm", "internal/shellwords"} {
		err := filepath.WalkDir(filepath.Join(m.root, room), func(dir string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil || !entry.IsDir():
				return err
			case entry.Name() == "testdata":
				return fs.SkipDir
			}
			return m.addPackage(dir)
		})
		require.NoError(t, err)
	}
	return m.all
}

func (m *messages) addPackage(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	m.roles = map[string]map[int]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(m.positions, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
		m.addRoles(file)
	}
	for _, file := range files {
		ast.Inspect(file, m.visit)
		ast.Inspect(file, func(n ast.Node) bool { m.add(n, ""); return !m.seen[n] })
	}
	return nil
}

// addRoles notes which parameters of a file's functions are hints.
func (m *messages) addRoles(file *ast.File) {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			for i, name := range namesOf(f.Type.Params) {
				if role := roleOf(name); role != "" {
					if m.roles[f.Name.Name] == nil {
						m.roles[f.Name.Name] = map[int]string{}
					}
					m.roles[f.Name.Name][i] = role
				}
			}
		}
	}
}

func namesOf(fields *ast.FieldList) (names []string) {
	if fields == nil {
		return nil
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// visit adds the hints at a node.
func (m *messages) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		m.addIn(n.Value, roleOf(nameOf(n.Key)))
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			m.addIn(n.Rhs[min(i, len(n.Rhs)-1)], roleOf(nameOf(left)))
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			m.addIn(value, roleOf(n.Names[i].Name))
		}
	case *ast.CallExpr:
		name := nameOf(n.Fun)
		for i, arg := range n.Args {
			if role := m.roles[name][i]; role != "" {
				m.addIn(arg, role)
			} else if name == "WithHint" {
				m.addIn(arg, "hint")
			}
		}
	case *ast.CompositeLit:
		m.addRows(n)
	case *ast.FuncDecl:
		m.addResults(n)
	}
	return true
}

// addRows adds the hints in a table of an anonymous struct type.
func (m *messages) addRows(table *ast.CompositeLit) {
	array, ok := table.Type.(*ast.ArrayType)
	if !ok {
		return
	}
	row, ok := array.Elt.(*ast.StructType)
	if !ok {
		return
	}
	for i, name := range namesOf(row.Fields) {
		for _, element := range table.Elts {
			if values, ok := element.(*ast.CompositeLit); ok && i < len(values.Elts) {
				m.addIn(values.Elts[i], roleOf(name))
			}
		}
	}
}

// addResults adds the hints that a function returns.
func (m *messages) addResults(f *ast.FuncDecl) {
	names := namesOf(f.Type.Results)
	if names == nil {
		names = []string{f.Name.Name}
	}
	if f.Body == nil {
		return
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if result, ok := n.(*ast.ReturnStmt); ok && len(result.Results) == len(names) {
			for i, name := range names {
				m.addIn(result.Results[i], roleOf(name))
			}
		}
		return true
	})
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// addIn adds the strings in an expression if it has a role.
func (m *messages) addIn(e ast.Expr, role string) {
	if role != "" {
		ast.Inspect(e, func(n ast.Node) bool { m.add(n, role); return !m.seen[n] })
	}
}

// add adds a node if it is a string.
func (m *messages) add(n ast.Node, role string) {
	e, ok := n.(ast.Expr)
	if !ok || m.seen[n] {
		return
	}
	if text, ok := stringIn(e); ok {
		m.seen[n] = true
		p := m.positions.Position(e.Pos())
		place, _ := filepath.Rel(m.root, p.Filename)
		text = formatVerb.ReplaceAllStringFunc(text, func(v string) string {
			switch v[len(v)-1] {
			case '%':
				return "%"
			case 'd':
				return "7"
			}
			return "X"
		})
		m.all = append(m.all, message{place + ":" + strconv.Itoa(p.Line), text, role})
	}
}

// formatVerb matches what fmt replaces.
var formatVerb = regexp.MustCompile(`%(\[\d\])?[-+#0]*[\d.*]*([a-zA-Z%])`)

// stringIn returns the text of a string, with X for each of its values.
func stringIn(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ = strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING
	case *ast.ParenExpr:
		return stringIn(e.X)
	case *ast.BinaryExpr:
		left, isLeft := stringIn(e.X)
		right, isRight := stringIn(e.Y)
		if !isLeft {
			left = "X"
		}
		if !isRight {
			right = "X"
		}
		return left + right, e.Op == token.ADD && (isLeft || isRight)
	case *ast.CallExpr:
		if nameOf(e.Fun) != "Sprintf" {
			return "", false
		}
		return stringIn(e.Args[0])
	}
	return "", false
}

// verbs begin hints.
var verbs = strings.Fields("add allow ask attach call check compare compile did give have install leave let " +
	"link lower make name put quote raise remove run set start try unset update use wait write")

// placeholders are values for words in capitals that stand for something else than a text.
var placeholders = map[string]string{
	"N": "2", "RANK": "0", "PORT": "29500", "TOPIC": "placement", "NAME": "dgx-h100", "HOST": "X", "NODE": "X",
}

var placeholder = regexp.MustCompile(`(^|[ =:])[A-Z]+\b`)

// filled returns a command with values in place of its placeholders, without a comment or a redirection.
func filled(command string) string {
	for _, end := range []string{" # ", " >"} {
		command, _, _ = strings.Cut(command, end)
	}
	command = strings.NewReplacer(" ...", "", " …", "", ",...", "", "...", "", "help X", "help TOPIC",
		"--hostfile X", "--hostfile FILE", "--hang-timeout X", "--hang-timeout 7").Replace(command)
	return placeholder.ReplaceAllStringFunc(command, func(found string) string {
		name := strings.TrimLeft(found, " =:")
		return strings.TrimSuffix(found, name) + cmp.Or(placeholders[name], name)
	})
}

// optionsOf returns the options of a command; those of a job for any other word.
func optionsOf(command string) (all []*option) {
	e := findCommand(command)
	if e == nil || e.name == "launch" || e.name == "run" {
		return slices.AppendSeq(slices.Collect(dialect.Gorun.Options), dialect.Launch.Options)
	}
	for _, f := range e.manual().Flags {
		all = append(all, f.(*dialect.Flag).Option)
	}
	return all
}

// optionIn returns the option that a word names, or nil.
func optionIn(all []*option, word string) *option {
	name, _, _ := strings.Cut(word, "=")
	for _, o := range all {
		if slices.ContainsFunc(o.AllNames(), func(n string) bool { return dialect.Spelling(n) == name || "-"+n == name }) {
			return o
		}
	}
	return nil
}

// works returns the reason if what a hint tells you to type is refused. A command may be the beginning of a longer one.
func works(command string) error {
	command = filled(command)
	if o := optionIn(optionsOf(""), command); o != nil && !o.Refused() || strings.HasPrefix(command, "#!") {
		return nil
	}
	err := canBeTyped(strings.TrimPrefix(command, "sudo "))
	if err == nil || !ofGorun.MatchString(command) && !strings.HasPrefix(command, "-") {
		return err
	}
	options := strings.TrimPrefix(command, "gorun ")
	for _, whole := range []string{command + " PROGRAM", command + " -H X", "gorun -H X,n1 " + options + " PROGRAM"} {
		if canBeTyped(whole) == nil {
			return nil
		}
	}
	return err
}

// commandWords matches words of a command in a sentence: options, placeholders, paths, lists and quoted texts.
var commandWords = regexp.MustCompile(`^(-.*|[A-Z]+|.*[/.=\[\]'*%:0-9].*)$`)

// bareCommands returns the commands of gorun in a sentence that does not mark them.
func bareCommands(text string) (commands []string) {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.TrimLeft(word, "(") != "gorun" || i+1 == len(words) {
			continue
		}
		command, wantsValue := "gorun", false
		for n, word := range words[i+1:] {
			trimmed := strings.TrimSuffix(strings.TrimRight(word, ",;:.)`"), "'s")
			if word == "..." || word == "…" {
				command += " ..."
				break
			}
			isCommand := n == 0 && findCommand(trimmed) != nil || command == "gorun hosts" && trimmed == "check"
			if !isCommand && !wantsValue && (word[0] == '[' || !commandWords.MatchString(trimmed)) {
				break
			}
			command += " " + trimmed
			o := optionIn(optionsOf(strings.Fields(command)[1]), trimmed)
			wantsValue = o != nil && o.TakesValue() && !strings.Contains(trimmed, "=")
			if strings.ContainsAny(word[len(word)-1:], ",;:.)") && !strings.HasSuffix(word, "...") {
				break
			}
		}
		if len(strings.Fields(command)) > 2 && command != "gorun hosts check" {
			commands = append(commands, command)
		}
	}
	return commands
}

// marked matches what a sentence marks as commands, and commands of other programs.
var marked = regexp.MustCompile("`[^`]*`| '[^']*'|(gorun|mpirun|gdb) .*")

// bareOptions returns the options in a sentence that does not mark them.
func bareOptions(text string) (options []string) {
	for _, word := range strings.Fields(marked.ReplaceAllString(text, "")) {
		if word = strings.Trim(word, "(),;:."); strings.HasPrefix(word, "-") && len(word) > 1 {
			options = append(options, word)
		}
	}
	return options
}

var longOption = regexp.MustCompile(`^--[a-z][a-z-]+$`)

// foreignOptions are the options of srun, salloc, sbatch and PyTorch's scripts that messages name.
var foreignOptions = strings.Fields("--local-rank --ntasks-per-node=1 --ntasks-per-node=4 --distribution " +
	"--cpu-bind --gpus-per-task --gpus-per-node --cpus-per-task --allow-incomplete-ranks")

var namedVariable = regexp.MustCompile(
	`\b(GORUN|PET|NCCL|RCCL|TORCHELASTIC|TORCH|OMP|CUDA|GLOO|UCX)_[A-Z0-9_]*[A-Z0-9]\b`)

// Every hint begins with a verb, and what gorun tells you to type works: commands, options and variables.
func TestHints(t *testing.T) {
	counts := map[string]int{}
	job, all := optionsOf(""), optionsOf("")
	for _, e := range commandList() {
		all = append(all, optionsOf(e.name)...)
	}
	for _, m := range codeMessages(t) {
		text := strings.TrimPrefix(strings.TrimPrefix(m.text, "hint: "), "rank 7: ")
		first, _, isSentence := strings.Cut(text, " ")
		// A table of env/plan says what ranks find in their environment.
		if !isSentence || m.role == "prose" || strings.HasPrefix(text, "# ") || strings.HasPrefix(m.place, "env/plan/") {
			continue
		}
		counts[m.role]++
		commands := append(markedCommands(m), bareCommands(text)...)
		isCommand := m.role == "fix" || m.role == "hint" && slices.Contains(tools, first)
		switch {
		case strings.HasPrefix(first, "X"): // the text of X is checked where it is written
		case isCommand:
			commands = append(commands, text)
		case m.role == "hint":
			assert.Contains(t, verbs, first, "%s: %s", m.place, text)
			assert.Zero(t, strings.Count(text, "`")%2, "%s: %s", m.place, text)
		}
		for _, word := range bareOptions(text) {
			switch o := optionIn(job, word); {
			case isCommand, strings.HasPrefix(m.place, "launcher/doctor/"), slices.Contains(foreignOptions, word):
			case m.role != "":
				assert.True(t, o != nil && !o.Refused(), "%s: %s: %s", m.place, word, text)
			case longOption.MatchString(word):
				assert.NotNil(t, optionIn(all, word), "%s: %s: %s", m.place, word, text)
			}
		}
		for _, name := range namedVariable.FindAllString(text, -1) {
			isOptions := slices.ContainsFunc(all, func(o *option) bool { return slices.Contains(o.Variables(), name) })
			assert.True(t, isOptions || isExplained(name), "%s: %s: %s", m.place, name, text)
		}
		for _, command := range commands {
			assert.NoError(t, works(command), "%s: %s: %s", m.place, command, text)
		}
	}
	for role, least := range map[string]int{"hint": 60, "fix": 80, "instead": 40, "": 1000} {
		assert.Greater(t, counts[role], least, "%q", role)
	}
}

// markedCommands returns the commands between backquotes: all in a hint, those of gorun and of known tools elsewhere.
func markedCommands(m message) (commands []string) {
	for _, command := range commandsIn(m.text) {
		name, _, _ := strings.Cut(command, " ")
		isKnown := ofGorun.MatchString(command) || strings.HasPrefix(command, "--") || slices.Contains(tools, name)
		if name != "X" && (m.role != "" || isKnown) {
			commands = append(commands, command)
		}
	}
	return commands
}
