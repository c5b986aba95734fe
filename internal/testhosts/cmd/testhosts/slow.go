package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"gorun/internal/testhosts"
)

// slow starts a process that forwards the host's frames until the set ends.
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
	relay.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// A file, as a reader of our standard error would wait for the relay.
	log, err := os.Create(filepath.Join(set.Dir(), host, "relay.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	relay.Stderr = log
	out, err := relay.StdoutPipe()
	if err != nil {
		return err
	}
	if err := relay.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		output, _ := os.ReadFile(log.Name())
		return fmt.Errorf("slow: the relay ended: %w: %s", relay.Wait(), output)
	}
	return nil
}

// relayVerb is the verb of the process that slow starts.
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
