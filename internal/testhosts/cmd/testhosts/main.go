// Command testhosts makes hosts h1 to hN and head on this machine, and injects faults; see package testhosts.
//
//	go build -o bin/testhosts ./internal/testhosts/cmd/testhosts
//	testhosts up 4
//	testhosts exec head ssh -F "$(testhosts ssh-config)" h2 hostname
//	testhosts down
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

const usage = `usage: testhosts VERB [ARGUMENT...]
  up [N]                            make N (4) hosts h1 to hN and head; they stay until down. TESTHOSTS_OPTIONS may hold
                                    private-tmp, private-home and no-names (not in /etc/hosts), separated by commas
  down                              end all of it
  exec HOST PROGRAM [ARGUMENT...]   run a program there, in this folder; on head the process is the program
  list                              hosts, addresses and what runs there
  dir | ssh-config | known-hosts | key | hostfile | ssh   print a path
  cut HOST | heal HOST              pull the cable | plug it in again (undoes blackhole, too)
  blackhole HOST                    packets vanish, the carrier stays
  slow HOST MILLISECONDS            delay each packet from and to a host; 0 undoes it
  crash HOST | boot HOST            link down and every process killed | start it again
  freeze HOST | thaw HOST           stop every process | let them go on
  sshd HOST stop|kill|freeze|thaw   the listener | it and all sessions | stop the listener | let it go on
  sshd HOST start [OPTION...]       "Port 2222" "MaxStartups 1": as sshd_config spells them
TESTHOSTS_DIR names the set (what dir prints); without it there must be just one.
`

func main() {
	verb, args := "help", []string(nil)
	if len(os.Args) > 1 {
		verb, args = os.Args[1], os.Args[2:]
	}
	if err := run(verb, args); err != nil {
		fmt.Fprintln(os.Stderr, "testhosts:", err)
		os.Exit(1)
	}
}

func run(verb string, args []string) error {
	switch verb {
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	case "up":
		return up(args)
	}
	set, err := find()
	if err != nil {
		return err
	}
	if path, ok := paths[verb]; ok {
		fmt.Println(path(set))
		return nil
	}
	if act, ok := hostActions[verb]; ok {
		if len(args) != 1 {
			return fmt.Errorf("%s needs one host\n%s", verb, usage)
		}
		return act(set, args[0])
	}
	switch {
	case verb == "down":
		return set.Down()
	case verb == "list":
		return list(set)
	case verb == "exec" && len(args) >= 2:
		return replace(set.Command(args[0], args[1:]...))
	case verb == "sshd" && len(args) >= 2:
		return sshd(set.SSHD(args[0]), args[1], args[2:])
	case verb == "slow" && len(args) == 2:
		return slow(set, args[0], args[1])
	case verb == relayVerb && len(args) == 2:
		return relay(set, args[0], args[1])
	}
	return fmt.Errorf("unknown verb or too few arguments: %q\n%s", append([]string{verb}, args...), usage)
}

// paths are the verbs that print a path.
var paths = map[string]func(*testhosts.Set) string{
	"dir":         (*testhosts.Set).Dir,
	"ssh-config":  (*testhosts.Set).SSHConfig,
	"known-hosts": (*testhosts.Set).KnownHosts,
	"key":         (*testhosts.Set).Key,
	"hostfile":    (*testhosts.Set).HostFile,
	"ssh":         (*testhosts.Set).SSH,
}

// hostActions are the verbs that take a host.
var hostActions = map[string]func(*testhosts.Set, string) error{
	"cut":       (*testhosts.Set).Cut,
	"heal":      (*testhosts.Set).Heal,
	"blackhole": (*testhosts.Set).Blackhole,
	"crash":     (*testhosts.Set).Crash,
	"boot":      (*testhosts.Set).Boot,
	"freeze":    (*testhosts.Set).Freeze,
	"thaw":      (*testhosts.Set).Thaw,
}

// up makes detached hosts.
func up(args []string) error {
	hosts := 4
	if len(args) > 0 {
		var err error
		if hosts, err = strconv.Atoi(args[0]); err != nil || len(args) > 1 {
			return fmt.Errorf("up needs a number of hosts, not %q", strings.Join(args, " "))
		}
	}
	if err := testneeds.FindHosts(); err != nil {
		return err
	}
	config := testhosts.Config{Hosts: hosts, Detached: true}
	flags := map[string]*bool{
		"private-tmp": &config.PrivateTmp, "private-home": &config.PrivateHome,
		"no-names": &config.NoNames,
	}
	for name := range strings.SplitSeq(os.Getenv("TESTHOSTS_OPTIONS"), ",") {
		if flag := flags[name]; flag != nil {
			*flag = true
		} else if name != "" {
			return fmt.Errorf("TESTHOSTS_OPTIONS has %q: it knows private-tmp, private-home and no-names", name)
		}
	}
	set, err := testhosts.Start(config)
	if err != nil {
		return err
	}
	fmt.Println(set.Dir())
	return nil
}

// find loads the set of TESTHOSTS_DIR, or the only one.
func find() (*testhosts.Set, error) {
	if dir := os.Getenv("TESTHOSTS_DIR"); dir != "" {
		return testhosts.Load(dir)
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), testhosts.Prefix+"*", testhosts.StateFile))
	if err != nil {
		return nil, err
	}
	var sets []*testhosts.Set
	var names []string
	for _, file := range dirs {
		if set, err := testhosts.Load(filepath.Dir(file)); err == nil && set.Detached() {
			sets, names = append(sets, set), append(names, set.Dir())
		}
	}
	switch len(sets) {
	case 0:
		return nil, errors.New("there are no hosts: testhosts up 4")
	case 1:
		return sets[0], nil
	}
	return nil, fmt.Errorf("there are several sets: say TESTHOSTS_DIR=DIR, which is one of %s", strings.Join(names, " "))
}

// replace replaces this process with the command, which gets its pid and signals.
func replace(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	return &os.PathError{Op: "exec", Path: cmd.Path, Err: syscall.Exec(cmd.Path, cmd.Args, os.Environ())}
}

func list(set *testhosts.Set) error {
	for _, host := range append([]string{testhosts.Head}, set.Hosts()...) {
		left, err := set.Processes(host)
		if err != nil {
			return err
		}
		alive := "crashed"
		if set.Alive(host) {
			alive = "up"
		}
		fmt.Println(host, set.Address(host), alive)
		for _, p := range left {
			fmt.Println("  ", p)
		}
	}
	return nil
}

func sshd(d testhosts.SSHD, verb string, options []string) error {
	verbs := map[string]func() error{
		"stop": d.Stop, "kill": d.Kill, "freeze": d.Freeze, "thaw": d.Thaw,
		"start": func() error { return d.Start(options...) },
	}
	if act := verbs[verb]; act != nil {
		return act()
	}
	return fmt.Errorf("sshd: %q is not stop, kill, start, freeze or thaw", verb)
}
