package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variables of a site, whose commands are this test binary.
const (
	siteSSH   = "INTEROP_SITE_SSH"   // program that replaces ssh
	siteCalls = "INTEROP_SITE_CALLS" // each call is appended to this file
	siteHosts = "INTEROP_SITE_HOSTS" // hosts of Flux's brokers, in order
	// siteWithout is a host without gorun.
	siteWithout = "INTEROP_SITE_WITHOUT"
	// siteTaskmap is the task map of a Flux job.
	siteTaskmap = "INTEROP_SITE_TASKMAP"
)

// call is one call of a resource manager's command.
type call struct {
	Argv []string
	// Line is the first line of standard input, if the command reads one itself.
	Line string
	// Environ is the environment of the command.
	Environ []string
}

// site simulates the commands of a resource manager from their documentation. They record their calls, and run the
// given commands on hosts of a fleet.
type site struct {
	fleet fleet
	bin   string // folder of the commands
	calls string
}

// newSite makes the commands.
func newSite(t *testing.T, f fleet, commands ...string) site {
	t.Helper()
	dir, err := os.MkdirTemp(f.Dir(), "site-")
	require.NoError(t, err)
	s := site{f, filepath.Join(dir, "bin"), filepath.Join(dir, "calls")}
	require.NoError(t, os.Mkdir(s.bin, 0o755))
	for _, name := range commands {
		script := fmt.Sprintf("#!/bin/sh\n%s=site exec %s %s \"$@\"\n", roleVariable, self(t), name)
		require.NoError(t, os.WriteFile(filepath.Join(s.bin, name), []byte(script), 0o755))
	}
	return s
}

// gorun is a job in an allocation of the site.
func (s site) gorun(environ []string, args ...string) job {
	j := gorun(append([]string{"-v", "-x", "INTEROP_*"}, args...)...)
	j.hosts = s.fleet.Set
	return j.with(environ...).with("PATH="+s.bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Dir(s.bin),
		siteSSH+"="+s.fleet.SSH(), siteCalls+"="+s.calls)
}

// made returns the recorded calls.
func (s site) made(t *testing.T) (all []call) {
	t.Helper()
	text, err := os.ReadFile(s.calls)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var one call
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		all = append(all, one)
	}
	return all
}

// playSite plays one of the commands.
func playSite() int {
	name, args := os.Args[1], os.Args[2:]
	err := errors.New("no such command")
	switch name {
	case "blaunch": // [-n] HOST COMMAND …, interpreted by a shell
		err = perHost(args[0], args[1:], call{Argv: os.Args[1:]})
	case "qrsh": // -inherit [-nostdin] HOST COMMAND …, interpreted by a login shell
		if args[0] != "-inherit" {
			err = fmt.Errorf("%s is not -inherit", args[0])
			break
		}
		err = perHost(args[1], args[2:], call{Argv: os.Args[1:]})
	case "flux":
		err = playFlux(args)
	case "pbsdsh":
		err = playPBSdsh(args)
	}
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, err)
	return 96
}

// note records a call.
func (c call) note() error {
	c.Environ = os.Environ()
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(os.Getenv(siteCalls), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// on is a command on a host. A shell interprets its words, joined by spaces.
func on(host string, words ...string) *exec.Cmd {
	c := exec.Command(os.Getenv(siteSSH), host, strings.Join(words, " "))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c
}

func perHost(host string, words []string, c call) error {
	if err := c.note(); err != nil {
		return err
	}
	command := on(host, words...)
	command.Stdin = os.Stdin
	return command.Run()
}

// onEach runs a command on several hosts at once. All of them receive a copy of standard input, if there is one.
func onEach(hosts []string, environ func(i int) string, words []string, stdin io.Reader) error {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + word + "'"
	}
	var (
		all    = make([]error, len(hosts))
		inputs []io.Writer
		ends   []io.Closer
		work   sync.WaitGroup
	)
	for i, host := range hosts {
		c := on(host, slices.Concat([]string{environ(i)}, quoted)...)
		if stdin != nil {
			in, err := c.StdinPipe()
			if err != nil {
				return err
			}
			inputs, ends = append(inputs, in), append(ends, in)
		}
		if err := c.Start(); err != nil {
			return err
		}
		work.Go(func() { all[i] = c.Wait() })
	}
	if stdin != nil {
		go func() {
			_, _ = io.Copy(io.MultiWriter(inputs...), stdin) // commands that have ended do not read
			for _, end := range ends {
				_ = end.Close()
			}
		}()
	}
	work.Wait()
	return errors.Join(all...)
}

// playFlux plays `flux getattr NAME`, `flux job taskmap|info ID` and `flux exec [--rank=SET] COMMAND …`.
func playFlux(args []string) error {
	hosts := strings.Fields(os.Getenv(siteHosts))
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "getattr hostlist":
		fmt.Println(strings.Join(hosts, ","))
		return nil
	case "getattr jobid":
		fmt.Println("ƒJqUHUCzX9")
		return nil
	case "job taskmap":
		fmt.Println(os.Getenv(siteTaskmap))
		return nil
	case "job info":
		fmt.Printf(`{"version": 1, "execution": {"nodelist": ["%s"]}}`+"\n", strings.Join(hosts, ","))
		return nil
	}
	if args[0] != "exec" {
		return fmt.Errorf("%q is no command", args)
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if err := (call{Argv: os.Args[1:], Line: line}).note(); err != nil {
		return err
	}
	if rank := slices.Index(hosts, os.Getenv(siteWithout)); rank >= 0 {
		fmt.Fprintf(os.Stderr, "flux-exec: Error: rank %d: %s: No such file or directory\n", rank, args[1])
		hosts = slices.Delete(hosts, rank, rank+1)
	}
	words := args[1:]
	if set, found := strings.CutPrefix(words[0], "--rank="); found {
		words = words[1:]
		var some []string
		for rank := range strings.SplitSeq(set, ",") {
			n, err := strconv.Atoi(rank)
			if err != nil {
				return err
			}
			some = append(some, hosts[n])
		}
		hosts = some
	}
	return onEach(hosts, func(int) string { return "" }, words, io.MultiReader(strings.NewReader(line), in))
}

// playPBSdsh plays `pbsdsh [-n INDEX | -u] -- COMMAND …`. It runs the command for each line of the node file, for
// one line, or for each host (-u, Torque only). Tasks have no standard input, and have the job's environment with
// their own numbers.
func playPBSdsh(args []string) error {
	if err := (call{Argv: os.Args[1:]}).note(); err != nil {
		return err
	}
	text, err := os.ReadFile(os.Getenv("PBS_NODEFILE"))
	if err != nil {
		return err
	}
	hosts := strings.Fields(string(text))
	if os.Getenv(siteWithout) != "" { // pbsdsh exits with 0 even if its tasks fail
		fmt.Println("pbsdsh: task 0x00000000 exit status 127")
		return nil
	}
	switch args[0] {
	case "-n":
		i, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		hosts, args = hosts[i:i+1], args[2:]
	case "-u":
		hosts, args = slices.Compact(slices.Sorted(slices.Values(hosts))), args[1:]
	}
	if args[0] != "--" {
		return fmt.Errorf("%q does not begin with --", args)
	}
	return onEach(hosts, func(i int) string { return "PBS_TASKNUM=" + strconv.Itoa(i+2) }, args[1:], nil)
}
