package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"gorun/internal/testhosts"
)

// slow starts a process that carries the host's frames for as long as the set lives.
func slow(set *testhosts.Set, host, milliseconds string) error {
	delay, err := strconv.ParseUint(milliseconds, 10, 31)
	if err != nil {
		return fmt.Errorf("slow needs a number of milliseconds, not %q", milliseconds)
	}
	if err := set.EndHelpers(relayVerb, host); err != nil {
		return err
	}
	if err := set.Slow(host, 0); err != nil || delay == 0 {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	relay := set.Helper(self, relayVerb, host, milliseconds)
	relay.Env = append(os.Environ(), "TESTHOSTS_DIR="+set.Dir())
	relay.Stderr, relay.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setsid: true}
	out, err := relay.StdoutPipe()
	if err != nil {
		return err
	}
	if err := relay.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("slow: the relay ended: %w", relay.Wait())
	}
	return nil
}

// relayVerb is the verb of the process that slow starts; it is killed in the end.
const relayVerb = "carry-frames"

func relay(set *testhosts.Set, host, milliseconds string) error {
	delay, err := strconv.Atoi(milliseconds)
	if err != nil {
		return err
	}
	if err := set.Slow(host, time.Duration(delay)*time.Millisecond); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}
