package program

import "strings"

// reach finds the functions of a script that nothing in it can call: whose name stands nowhere in what runs. A function
// counts as called where its name is mentioned, by whomever; where it has a decorator, or is a method of a class that
// is derived from another, whose code may call it; and wherever a script calls functions by names that it makes up.
type reach struct {
	mentioned map[string]bool
	waiting   map[string][]*statement // functions whose names have not been mentioned yet
}

// byName are calls by which a script may run any of its functions.
var byName = [...]string{"globals", "eval", "exec", "Fire"}

// unreached returns the functions of a script that never run.
func unreached(script []statement) map[*statement]bool {
	r := &reach{map[string]bool{}, map[string][]*statement{}}
	r.suite(script, false)
	never := map[*statement]bool{}
	for _, name := range byName {
		if r.mentioned[name] {
			return never
		}
	}
	for _, functions := range r.waiting {
		for _, f := range functions {
			never[f] = true
		}
	}
	return never
}

// suite follows what runs when a suite does; derived says that it is the body of a derived class.
func (r *reach) suite(suite []statement, derived bool) {
	for i := range suite {
		st := &suite[i]
		header, name := st.tokens, ""
		if (st.keyword == "def" || st.keyword == "class") && len(header) > 0 {
			name, header = header[0].text, header[1:]
		}
		for _, t := range header {
			if t.kind == tokenName || t.kind == tokenString {
				r.mention(t.text)
			}
		}
		decorated := i > 0 && suite[i-1].keyword == "" && len(suite[i-1].tokens) > 0 && suite[i-1].tokens[0].is("@")
		if st.keyword == "def" && !derived && !decorated && !r.mentioned[name] && !strings.HasPrefix(name, "__") {
			r.waiting[name] = append(r.waiting[name], st)
			continue
		}
		r.suite(st.body, st.keyword == "class" && len(header) > 2) // more than ()
	}
}

// mention has the functions of a name run.
func (r *reach) mention(name string) {
	if r.mentioned[name] {
		return
	}
	r.mentioned[name] = true
	functions := r.waiting[name]
	delete(r.waiting, name)
	for _, f := range functions {
		r.suite(f.body, false)
	}
}
