// Command agentprogram is what gorun copies to other hosts: its agent, and nothing else. `make gorun` builds it for
// each architecture and makes it a part of gorun.
//
// The settings below spare the start-up what Go does to follow a cgroup's CPU quota, and MPTCP.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
//go:debug multipathtcp=0
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/internal/version"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/process"
	nvml "gorun/placement/nvml/worker"
)

func main() {
	if os.Getenv("GOTRACEBACK") == "crash" { // as in gorun itself: the job's key stays out of a core dump
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if process.EnterGuard() {
		return
	}
	verb, hash, _ := strings.Cut(strings.Join(os.Args[1:], " "), " ")
	switch verb {
	case "agent":
		// As in gorun agent: the end of a login must not end the agent before its ranks.
		signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGPIPE)
		if err := serve(); err != nil {
			exit(125, err.Error())
		}
	case "--version":
		if hash != "" && hash != ownHash() {
			exit(1, "what arrived is not what was sent")
		}
		fmt.Println("gorun", version.String())
	default:
		exit(2, "this is the agent that gorun starts on other hosts")
	}
}

// ownHash returns the SHA-256 of this program, in hexadecimal. It is another's if the file cannot be read. The kernel
// begins to write it to the disk: half a minute later, a power failure would leave an empty copy to start for ever.
func ownHash() string {
	f, _ := os.Open("/proc/self/exe")
	hash := sha256.New()
	_, _ = io.Copy(hash, f)
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	return hex.EncodeToString(hash.Sum(nil))
}

func serve() error {
	cfg, err := agent.Standalone(agent.Config{
		NVML: nvml.Program{Version: version.String()}, Version: version.String(),
	})
	if err != nil {
		return err
	}
	return agent.ServeStreams(os.Stdin, os.Stdout, cfg)
}

func exit(code int, text string) {
	fmt.Fprintln(os.Stderr, "gorun: "+text)
	os.Exit(code)
}
