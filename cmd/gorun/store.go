package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/job"
	"gorun/rendezvous/tcpstore"
)

// serveStore serves a store until a signal ends it, and returns the exit code. SIGTERM is the way to end it, so that is
// no failure.
func serveStore(wish dialect.StoreServer, stdout, stderr io.Writer) int {
	signals := storeSignals() // before anybody learns the address
	var mu sync.Mutex         // the server speaks in a goroutine of its own
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		say(stderr, fmt.Sprintf(format, args...))
	}
	server, err := tcpstore.Listen(storeConfig(wish, tell))
	if err != nil {
		return cannotListen(err, tell)
	}
	defer server.Close()
	begun := time.Now()
	if code := write(stdout, stderr, server.Addr().String()+"\n"); code != 0 {
		return code
	}
	if !server.Addr().Addr().IsLoopback() && len(wish.Allow) == 0 {
		tell("only peers on this host are accepted; --allow-from CIDR accepts others")
	}
	select {
	case s := <-signals:
		tell("%s", storeSummary(server, time.Since(begun)))
		return storeEnded(s)
	case <-server.Done():
		return job.ExitLauncher // it said why
	}
}

func storeConfig(wish dialect.StoreServer, logf func(string, ...any)) tcpstore.Config {
	return tcpstore.Config{
		Host: wish.Host, Port: wish.Port, Logf: logf,
		Allow: tcpstore.AllowNetworks(wish.Allow...), AllowOption: "--allow-from",
		AllowLocalUsers: wish.AllowLocalUsers, AllowLocalUsersOption: "--allow-local-users",
		Limits: tcpstore.Limits{
			Key: wish.MaxKey, Value: wish.MaxValue, Keys: wish.MaxKeys, Memory: wish.MaxMemory, Connections: wish.MaxConnections,
		},
	}
}

// cannotListen says why, and whose the port is.
func cannotListen(err error, tell func(string, ...any)) int {
	var taken *tcpstore.PortTakenError
	if errors.As(err, &taken) {
		tell("listen at %v: %s", netip.AddrPortFrom(netip.MustParseAddr(taken.Host), uint16(taken.Port)), taken.Explain())
		tell("hint: name another port, or none: gorun then takes a free one")
	} else {
		tell("%v", err)
	}
	return job.ExitLauncher
}

// storeSummary says what a store did.
func storeSummary(server *tcpstore.Server, served time.Duration) string {
	was := server.Snapshot()
	return fmt.Sprintf("the store served for %v; connections: %d, operations: %d, keys at the end: %d, refused: %d",
		served.Round(time.Millisecond), server.Clients(), was.Operations, was.Keys, was.Refused)
}

func storeSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(ch, syscall.SIGHUP)
	}
	return ch
}

// storeEnded is the exit code for the signal that ended a store.
func storeEnded(s os.Signal) int {
	number, ok := s.(syscall.Signal)
	if !ok || number == syscall.SIGTERM {
		return 0
	}
	return 128 + int(number)
}
