package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// seen is the report of a rank of role "tell", as one line of JSON.
type seen struct {
	Args    []string
	Dir     string
	UID     int
	Environ map[string]string
	// StdinEnded reports that standard input was at end-of-file at once.
	StdinEnded bool
}

// play runs a role of this test binary as a rank. It returns the exit status.
func play(role string) int {
	switch role {
	case "tell":
		return tell()
	case "crowd":
		return playCrowd()
	case "knock":
		return playKnock()
	case "hang":
		return playHang()
	case "deaf":
		return playDeaf()
	case "chatter":
		return chatter()
	case "bytes":
		return tellBytes()
	case "lines":
		return playLines()
	case "digest":
		return playDigest()
	case "stay":
		return playStay()
	case "outsider":
		return playOutsider()
	case "junk":
		return runVirtualMachines()
	case "heed":
		return playHeed()
	case "site":
		return playSite()
	case "garbage":
		return playGarbage()
	case "speak":
		return playSpeak()
	case "closed":
		return execWithClosedDescriptors()
	}
	fmt.Fprintf(os.Stderr, "no role %q\n", role)
	return 99
}

func tell() int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	n, _ := os.Stdin.Read(make([]byte, 1))
	me := seen{Args: os.Args[1:], Dir: dir, UID: os.Getuid(), Environ: map[string]string{}, StdinEnded: n == 0}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		me.Environ[name] = value
	}
	line, err := json.Marshal(me)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	fmt.Println(string(line))
	return 0
}

// chatter prints until its reader closes the stream.
func chatter() int {
	for line := 0; ; line++ {
		if _, err := fmt.Printf("line %d\n", line); err != nil {
			return 0
		}
	}
}

// execWithClosedDescriptors executes the program of its arguments without descriptors 0, 1 and 2, as a badly
// written daemon would.
func execWithClosedDescriptors() int {
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	_ = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	return 97
}
