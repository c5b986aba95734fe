// Command testhosts makes hosts h1 to hN and head on this machine, and runs and injects faults by the lines of its
// standard input, whose end is theirs; see package testhosts.
//
//	go run ./internal/testhosts/cmd/testhosts 4
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

const usage = `usage: testhosts [N [OPTION...]]
Makes N (4) hosts h1 to hN and head, and reads lines until there are no more (Ctrl-D), when the hosts end.
Options: private-tmp, private-home, no-names (not in /etc/hosts).
  exec HOST COMMAND               run a shell's command there, in this folder; the launcher belongs on head
  list                            hosts, addresses and what runs there
  cut HOST | heal HOST            pull the cable | plug it in again (undoes blackhole, too)
  blackhole HOST                  packets vanish, the carrier stays
  slow HOST TIME                  delay each packet from and to a host by a time such as 20ms; 0 undoes it
  crash HOST | boot HOST          link down and every process killed | start it again
  freeze HOST | thaw HOST         stop every process | let them go on
  sshd HOST stop|kill|freeze|thaw the listener | it and all sessions | stop the listener | let it go on
  sshd HOST start [OPTION]        Port 2222, MaxStartups 1: as sshd_config spells it
`

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testhosts:", err)
		os.Exit(1)
	}
}

func run(args []string, lines io.Reader) (err error) {
	config := testhosts.Config{Hosts: 4}
	flags := map[string]*bool{
		"private-tmp": &config.PrivateTmp, "private-home": &config.PrivateHome, "no-names": &config.NoNames,
	}
	for i, arg := range args {
		if flag := flags[arg]; flag != nil {
			*flag = true
		} else if config.Hosts, err = strconv.Atoi(arg); err != nil || i > 0 {
			return fmt.Errorf("%q is no number of hosts and no option\n%s", arg, usage)
		}
	}
	if err := testneeds.FindHosts(); err != nil {
		return err
	}
	set, err := testhosts.Start(config)
	if err != nil {
		return err
	}
	fmt.Println("ssh_config, ssh and others are in", set.Dir())
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		if err := act(set, scanner.Text()); err != nil {
			fmt.Fprintln(os.Stderr, "testhosts:", err)
		}
	}
	return set.Down()
}

// hostActions are the verbs that take a host alone.
var hostActions = map[string]func(*testhosts.Set, string) error{
	"cut":       (*testhosts.Set).Cut,
	"heal":      (*testhosts.Set).Heal,
	"blackhole": (*testhosts.Set).Blackhole,
	"crash":     (*testhosts.Set).Crash,
	"boot":      (*testhosts.Set).Boot,
	"freeze":    (*testhosts.Set).Freeze,
	"thaw":      (*testhosts.Set).Thaw,
}

// act does what a line says.
func act(set *testhosts.Set, line string) error {
	verb, args, _ := strings.Cut(strings.TrimSpace(line), " ")
	host, rest, more := strings.Cut(strings.TrimSpace(args), " ")
	switch do := hostActions[verb]; {
	case verb == "":
		return nil
	case do != nil && !more:
		return do(set, host)
	case verb == "list":
		return list(set)
	case verb == "exec":
		cmd := set.Command(host, "/bin/sh", "-c", rest)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	case verb == "sshd":
		return sshd(set.SSHD(host), strings.Fields(rest))
	case verb == "slow":
		delay, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		return set.Slow(host, delay)
	}
	return fmt.Errorf("no such line: %s\n%s", line, usage)
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

func sshd(d testhosts.SSHD, words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("sshd: stop, kill, start, freeze or thaw?")
	}
	verbs := map[string]func() error{
		"stop": d.Stop, "kill": d.Kill, "freeze": d.Freeze, "thaw": d.Thaw,
		"start": func() error { return d.Start(strings.Join(words[1:], " ")) },
	}
	if do := verbs[words[0]]; do != nil {
		return do()
	}
	return fmt.Errorf("sshd: %q is not stop, kill, start, freeze or thaw", words[0])
}
