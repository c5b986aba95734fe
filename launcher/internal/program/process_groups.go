package program

// A script that creates several process groups in sequence at its own port needs a store that outlives them. PyTorch's
// rank 0 closes its server with each group, and a rank that is ahead would still reach the previous one.

// otherStores are names of functions and modules that start other processes, or a store that rank 0 must host.
var otherStores = map[string]bool{
	"multiprocessing": true, "mp": true, "spawn": true, "start_processes": true, "Process": true, "Pool": true,
	"ProcessPoolExecutor": true, "fork": true, "Popen": true, "subprocess": true, "putenv": true,
	"TCPStore": true,
}

// regroups reports whether each process of a script creates several default process groups in sequence, all at the
// same literal port on this host. One store can then serve all of them.
func regroups(script []statement) bool {
	g := groupCount{defs: map[string]*statement{}, counting: map[string]bool{}}
	return g.read(script) && g.destroys && g.assigned == 1 && g.made(script) > 1
}

// groupCount counts the process groups that a script creates.
type groupCount struct {
	defs     map[string]*statement // functions and methods
	counting map[string]bool       // functions that are being counted
	destroys bool
	assigned int // assignments to MASTER_PORT
}

// read collects functions and assignments, and reports whether a store at the port could serve the script.
func (g *groupCount) read(suite []statement) bool {
	for i := range suite {
		st := &suite[i]
		if st.keyword == "def" && len(st.tokens) > 0 {
			g.defs[st.tokens[0].text] = st
		}
		for at, t := range st.tokens {
			switch {
			case t.kind == tokenName && otherStores[t.text]:
				return false
			case t.is("destroy_process_group"):
				g.destroys = true
			case t.kind == tokenString && !g.readKey(t.text, st.tokens[at+1:]):
				return false
			}
		}
		if !g.read(st.body) {
			return false
		}
	}
	return true
}

// readKey handles a use of an environment variable.
func (g *groupCount) readKey(name string, rest []token) bool {
	assigns := len(rest) > 1 && rest[0].is("]") && rest[1].is("=")
	switch name {
	case masterPort:
		if assigns {
			g.assigned++
		}
		return len(rest) > 0 && rest[0].is("]")
	case "MASTER_ADDR":
		return !assigns || len(rest) == 3 && (rest[2].text == "localhost" || rest[2].text == "127.0.0.1")
	}
	return true
}

// made returns the number of groups that a suite creates; loops count twice.
func (g *groupCount) made(suite []statement) (total int) {
	branch := 0
	for i := range suite {
		st := &suite[i]
		if st.keyword == "def" {
			continue
		}
		n := g.calls(st.tokens) + g.made(st.body)
		switch st.keyword {
		case "for", "while":
			n *= 2
		case "if", "try":
			branch = n
		case "elif", "else", "except", "case": // instead of the previous branches
			n, branch = max(n-branch, 0), max(n, branch)
		}
		total += n
	}
	return total
}

// calls returns the number of groups that the functions in an expression create.
func (g *groupCount) calls(tokens []token) (total int) {
	for i := range tokens[:max(len(tokens)-1, 0)] {
		name := tokens[i].text
		def := g.defs[name]
		switch {
		case tokens[i].kind != tokenName || !tokens[i+1].is("("):
		case name == "init_process_group":
			total++
		case def != nil && !g.counting[name]:
			g.counting[name] = true
			total += g.made(def.body)
			g.counting[name] = false
		}
	}
	return total
}
