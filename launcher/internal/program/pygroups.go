package program

// A script that makes process groups one after the other at a port of its own needs a store that outlives them:
// PyTorch's rank 0 ends its server with each group, and a rank that is ahead still reaches the one before.

// otherStores are names of what makes processes with groups of their own, or a store that rank 0 has to host.
var otherStores = map[string]bool{
	"multiprocessing": true, "mp": true, "spawn": true, "start_processes": true, "Process": true, "Pool": true,
	"ProcessPoolExecutor": true, "fork": true, "Popen": true, "subprocess": true, "putenv": true,
	"TCPStore": true,
}

// regroups reports whether each process of a script makes default process groups one after the other, and all of them
// at the one port that stands in its text, on this host: a store there serves every rank.
func regroups(script []statement) bool {
	g := groups{defs: map[string]*statement{}, within: map[string]bool{}}
	return g.read(script) && g.destroys && g.assigned == 1 && g.made(script) > 1
}

// groups counts the process groups that a script makes.
type groups struct {
	defs     map[string]*statement // functions and methods
	within   map[string]bool       // those that are being counted
	destroys bool
	assigned int // assignments to MASTER_PORT
}

// read learns what is in a script, and reports whether a store at its port could serve it.
func (g *groups) read(suite []statement) bool {
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

// readKey reads what is done with a variable of the environment.
func (g *groups) readKey(name string, rest []token) bool {
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

// made is how many groups are made when a suite runs; it counts 2 for each loop.
func (g *groups) made(suite []statement) (total int) {
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
		case "elif", "else", "except", "case": // instead of the branches before
			n, branch = max(n-branch, 0), max(n, branch)
		}
		total += n
	}
	return total
}

// calls is how many groups are made by the functions that an expression calls.
func (g *groups) calls(tokens []token) (total int) {
	for i := range tokens[:max(len(tokens)-1, 0)] {
		name := tokens[i].text
		def := g.defs[name]
		switch {
		case tokens[i].kind != tokenName || !tokens[i+1].is("("):
		case name == "init_process_group":
			total++
		case def != nil && !g.within[name]:
			g.within[name] = true
			total += g.made(def.body)
			g.within[name] = false
		}
	}
	return total
}
