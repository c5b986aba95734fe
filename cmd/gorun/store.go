package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/job"
	"gorun/rendezvous/tcpstore"
)

type storeOptions struct {
	*commandLine
	host  string          // IP address to listen at; "" is loopback
	port  int             // 0 is a free one
	limit tcpstore.Limits // 0: the server's default
}

func storeCommand(c *commandLine) *command {
	o := &storeOptions{commandLine: c}
	limits := []*option{{
		Names: "listen", Group: dialect.GroupServing, Value: "ADDR",
		Help: "serve at ADDR: HOST:PORT, HOST, PORT or :PORT (127.0.0.1, a free port)",
		Set: func(a dialect.Arg) (err error) {
			o.host, o.port, err = parseListen(a.Value)
			return err
		},
	}, {
		Names: "max-connections", Group: dialect.GroupLimits, Value: "N",
		Help: "accept N connections at once (3/4 of open files, at most 262144)",
		Set:  dialect.Parsed(&o.limit.Connections, dialect.AtLeast(1)),
	}, {
		Names: "max-memory", Group: dialect.GroupLimits, Value: "SIZE",
		Help: "use at most SIZE bytes, such as 1000000, 64K or 64M (4G)",
		Set:  dialect.Parsed(&o.limit.Memory, parseSize),
	}, {
		Names: "max-key-size", Group: dialect.GroupLimits, Value: "SIZE",
		Help: "accept keys of at most SIZE bytes (64K)", Set: dialect.Parsed(&o.limit.Key, parseLength),
	}, {
		Names: "max-value-size", Group: dialect.GroupLimits, Value: "SIZE",
		Help: "accept values of at most SIZE bytes in a request (64M)", Set: dialect.Parsed(&o.limit.Value, parseLength),
	}, {
		Names: "max-keys-per-request", Group: dialect.GroupLimits, Value: "N",
		Help: "accept at most N keys in a request (131072)", Set: dialect.Parsed(&o.limit.Keys, dialect.AtLeast(1)),
	}}
	return &command{
		request: o,
		Command: cli.Command{
			Usage: "serve a rendezvous store for scripts and other launchers",
			Description: "gorun store serves a TCPStore for scripts and other launchers. It prints its address as " +
				"soon as it serves, and ends on SIGTERM with a summary.",
			Flags: c.Flags(append(limits, c.JobOptions("allow-from", "allow-local-users")...)...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun store", "on a free port of 127.0.0.1"},
				{"gorun store --listen [::]:29500 --allow-from 10.0.0.0/8", "everywhere, for the hosts of a network"},
			},
			Codes: []dialect.Example{
				{"0", "SIGTERM ended it"},
				{"2", "a mistake on the command line"},
				{"125", "it could not listen, or write its address"},
				{"129, 130", "SIGHUP, SIGINT ended it"},
			},
			Last: "Every option has a variable: GORUN_LISTEN gives the default of --listen. More: docs/internals/store.md.",
		},
	}
}

func (o *storeOptions) check(words []string) {
	o.refuseArguments("store", words)
	o.NoteUnknownVariables()
}

// run serves a store until a signal ends it, SIGTERM with exit code 0.
func (o *storeOptions) run() error {
	signals := storeSignals() // before the address is known to anyone
	var mu sync.Mutex         // the server logs from its own goroutine
	logf := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		o.notify(fmt.Sprintf(format, args...))
	}
	config := o.config(logf)
	server, err := tcpstore.Listen(config)
	if err != nil {
		return listenError(err)
	}
	defer server.Close()
	begun := time.Now()
	if err := o.print(server.Addr().String() + "\n"); err != nil {
		return err
	}
	if !server.Addr().Addr().IsLoopback() && config.Allow == nil {
		logf("only peers on this host are accepted; --allow-from CIDR accepts others")
	}
	select {
	case s := <-signals:
		was := server.Snapshot()
		logf("the store served for %v; connections: %d, operations: %d, keys at the end: %d, refused: %d",
			time.Since(begun).Round(time.Millisecond), server.Clients(), was.Operations, was.Keys, was.Refused)
		return exitWith(signalExitCode(s))
	case <-server.Done():
		return exitWith(job.ExitLauncher) // it logged why
	}
}

func (o *storeOptions) config(logf func(string, ...any)) tcpstore.Config {
	return tcpstore.Config{
		Host: o.host, Port: o.port, Logf: logf, Limits: o.limit,
		Allow: tcpstore.AllowNetworks(o.Spec.Store.Allow...), AllowOption: "--allow-from",
		AllowLocalUsers: o.Spec.Store.AllowLocalUsers, AllowLocalUsersOption: "--allow-local-users",
	}
}

// listenError explains which process has the port.
func listenError(err error) error {
	taken, ok := errors.AsType[*tcpstore.PortTakenError](err)
	if !ok {
		return err
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(taken.Host), uint16(taken.Port))
	return multierror.Append(fmt.Errorf("listen at %v: %s", at, taken.Explain()),
		errors.New("hint: name another port, or leave it out: gorun then takes a free one"))
}

func storeSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(ch, syscall.SIGHUP)
	}
	return ch
}

func signalExitCode(s os.Signal) int {
	number, ok := s.(syscall.Signal)
	if !ok || number == syscall.SIGTERM {
		return 0
	}
	return 128 + int(number)
}

// parseListen parses HOST:PORT, HOST, :PORT, or PORT. HOST is localhost or an IP address, in brackets before a port if
// it has colons. Other names are refused, since a look-up may take for ever. It returns "" for loopback.
func parseListen(value string) (host string, port int, err error) {
	if n, err := strconv.ParseUint(value, 10, 16); err == nil {
		return "", int(n), nil
	}
	if number, ok := strings.CutPrefix(value, ":"); ok && !strings.Contains(number, ":") {
		port, err = dialect.ParsePort(number)
		return "::", port, err
	}
	if host, port, err = dialect.ParseEndpoint(value); err != nil {
		return "", 0, fmt.Errorf("%w; write HOST:PORT, such as 127.0.0.1:29500, [::1]:29500 or :29500", err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || ip.Zone() != "") {
		return "", 0, fmt.Errorf("%s is no IP address without a zone; names are not looked up", host)
	}
	return host, port, nil
}
