package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"gorun/launcher/registry"
	"gorun/rendezvous/tcpstore"
)

// commands are what scripts can say beside testscript's own commands.
//
//	exits CODE PROGRAM [ARGS...]   run a program that must exit with that code
//	cmplines FILE WANT             the same lines in any order: ranks do not wait for each other
//	cmplike FILE WANT              the same text but for what differs from run to run (see likeness);
//	                               in WANT, $NAME is the script's variable
//	json FILE PATH [VALUE]         the value at PATH of a JSON file: keys and indices between slashes,
//	                               KEY=TEXT for the first of a list that has it; "! json" for nothing there
//	jsonenv NAME FILE PATH         sets a variable of the script to that value
//	entry NAME DIR                 sets a variable of the script to the path of DIR's only entry
//	listed N [BYTES]               waits until gorun ps lists N jobs whose ranks have all printed something
//	                               (or so much), into jobs.json
//	freeport NAME                  sets a variable to a port at which nobody listens, and that nobody else is given
//	listen NAME                    takes a free port until the script ends, and sets a variable to it
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"exits": exits, "cmplines": cmplines, "cmplike": cmplike, "json": checkJSON, "jsonenv": jsonenv, "listen": listen,
	"freeport": freePort, "entry": entry, "listed": listed,
}

// want checks how a command was called.
func want(ts *testscript.TestScript, ok bool, usage string) {
	if !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) >= 2, "exits CODE PROGRAM [ARGS...]")
	wanted, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != wanted {
		ts.Fatalf("%q exited with %d, not %d", args[1:], code, wanted)
	}
}

func cmplines(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 2, "cmplines FILE WANT")
	sorted := func(name string) string {
		lines := strings.SplitAfter(ts.ReadFile(name), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "")
	}
	sameText(ts, args, sorted(args[0]), sorted(args[1]))
}

func cmplike(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 2, "cmplike FILE WANT")
	sameText(ts, args, likeness(ts.ReadFile(args[0])), likeness(os.Expand(ts.ReadFile(args[1]), ts.Getenv)))
}

func sameText(ts *testscript.TestScript, names []string, got, wanted string) {
	if got != wanted {
		ts.Fatalf("%s is not like %s:\n--- %s\n%s--- %s\n%s", names[0], names[1], names[0], got, names[1], wanted)
	}
}

// likeness is a text without what differs from run to run, or from host to host
// where a script cannot know it: numbers of processes, times, how many variables
// are inherited, and how wide a column is for the sake of its longest value.
func likeness(text string) string {
	for _, l := range likenesses {
		text = l.differs.ReplaceAllString(text, l.stands)
	}
	return text
}

var likenesses = []struct {
	differs *regexp.Regexp
	stands  string
}{
	{regexp.MustCompile(`\(pid \d+\)`), "(pid N)"},
	{regexp.MustCompile(`(?m) after [0-9.]+m?s$`), " after T"},
	{regexp.MustCompile(`and \d+ inherited ones`), "and N inherited ones"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`(?m)^ {9,}and`), "  and"},
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 3 && !neg || len(args) == 2 && neg, "json FILE PATH VALUE, ! json FILE PATH")
	value, err := fromJSON(ts.ReadFile(args[0]), args[1])
	switch {
	case neg && err == nil:
		ts.Fatalf("%s: %s is %s, and should not be there", args[0], args[1], value)
	case !neg && err != nil:
		ts.Fatalf("%s: %v", args[0], err)
	case !neg && value != args[2]:
		ts.Fatalf("%s: %s is %q, not %q", args[0], args[1], value, args[2])
	}
}

func jsonenv(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 3, "jsonenv NAME FILE PATH")
	value, err := fromJSON(ts.ReadFile(args[1]), args[2])
	ts.Check(err)
	ts.Setenv(args[0], value)
}

// fromJSON is the value at a path: a text as it is, anything else as JSON.
func fromJSON(text, path string) (string, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return "", err
	}
	for step := range strings.SplitSeq(path, "/") {
		if value = into(value, step); value == nil {
			return "", fmt.Errorf("%s: no %s", path, step)
		}
	}
	if s, ok := value.(string); ok {
		return s, nil
	}
	written, err := json.Marshal(value)
	return string(written), err
}

// into is one step of a path, nil if there is nothing.
func into(value any, step string) any {
	switch v := value.(type) {
	case map[string]any:
		return v[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(v) {
			return v[i]
		}
		key, text, _ := strings.Cut(step, "=")
		i := slices.IndexFunc(v, func(e any) bool { return into(e, key) == any(text) })
		if i >= 0 {
			return v[i]
		}
	}
	return nil
}

func listen(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 1, "listen NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
}

func freePort(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 1, "freeport NAME")
	r, err := tcpstore.Reserve("127.0.0.1", 0)
	ts.Check(err)
	ts.Defer(func() { _ = r.Close() })
	ts.Setenv(args[0], strconv.Itoa(int(r.Addr().Port())))
}

func listed(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && (len(args) == 1 || len(args) == 2), "listed N [BYTES]")
	least := int64(1)
	if len(args) == 2 {
		var err error
		least, err = strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
	}
	for {
		ts.Check(ts.Exec("gorun", "ps", "--json"))
		text := ts.ReadFile("stdout")
		var jobs []registry.Job
		ts.Check(json.Unmarshal([]byte(text), &jobs))
		silent := slices.ContainsFunc(jobs, func(j registry.Job) bool {
			return slices.ContainsFunc(j.Ranks, func(r registry.Rank) bool {
				return r.Last == "" || r.Output == nil || *r.Output < least
			})
		})
		if strconv.Itoa(len(jobs)) == args[0] && !silent {
			ts.Check(os.WriteFile(ts.MkAbs("jobs.json"), []byte(text), 0o600))
			return
		}
	}
}

func entry(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 2, "entry NAME DIR")
	list, err := os.ReadDir(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(list) != 1 {
		ts.Fatalf("%s has %d entries: %v", args[1], len(list), list)
	}
	ts.Setenv(args[0], filepath.Join(ts.MkAbs(args[1]), list[0].Name()))
}
