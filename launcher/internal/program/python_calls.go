package program

import "strings"

// callGraph finds the functions of a script that cannot be called. A function can be called if code that runs
// mentions its name, if it has a decorator, or if it is a method of a derived class. All functions may be called if
// the script calls functions by computed names.
type callGraph struct {
	mentioned map[string]bool
	pending   map[string][]*statement // functions whose names have not been mentioned yet
}

// dynamicCalls may call any function.
var dynamicCalls = [...]string{"globals", "eval", "exec", "Fire"}

// uncalledFunctions returns the functions of a script that never run.
func uncalledFunctions(script []statement) map[*statement]bool {
	g := &callGraph{map[string]bool{}, map[string][]*statement{}}
	g.suite(script, false)
	uncalled := map[*statement]bool{}
	for _, name := range dynamicCalls {
		if g.mentioned[name] {
			return uncalled
		}
	}
	for _, functions := range g.pending {
		for _, f := range functions {
			uncalled[f] = true
		}
	}
	return uncalled
}

// suite follows a suite that runs; derived says that it is the body of a derived class.
func (g *callGraph) suite(suite []statement, derived bool) {
	for i := range suite {
		st := &suite[i]
		header, name := st.tokens, ""
		if (st.keyword == "def" || st.keyword == "class") && len(header) > 0 {
			name, header = header[0].text, header[1:]
		}
		for _, t := range header {
			if t.kind == tokenName || t.kind == tokenString {
				g.mention(t.text)
			}
		}
		decorated := i > 0 && suite[i-1].keyword == "" && len(suite[i-1].tokens) > 0 && suite[i-1].tokens[0].is("@")
		if st.keyword == "def" && !derived && !decorated && !g.mentioned[name] && !strings.HasPrefix(name, "__") {
			g.pending[name] = append(g.pending[name], st)
			continue
		}
		g.suite(st.body, st.keyword == "class" && len(header) > 2) // more than ()
	}
}

// mention follows the functions with a name.
func (g *callGraph) mention(name string) {
	if g.mentioned[name] {
		return
	}
	g.mentioned[name] = true
	functions := g.pending[name]
	delete(g.pending, name)
	for _, f := range functions {
		g.suite(f.body, false)
	}
}
