package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// oddPrefix begins the names of the variables that role "bytes" prints.
const oddPrefix = "INTEROP_ODD_"

// tellBytes prints the working directory, the arguments and those variables in hexadecimal, since JSON cannot hold
// all bytes.
func tellBytes() int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	odd := slices.DeleteFunc(os.Environ(), func(entry string) bool { return !strings.HasPrefix(entry, oddPrefix) })
	slices.Sort(odd)
	fmt.Println(inHex(slices.Concat([]string{dir}, os.Args[1:], odd)))
	return 0
}

func inHex(texts []string) string { return hex.EncodeToString([]byte(strings.Join(texts, "\x00"))) }

// manyLines is how many lines role "lines" prints.
const manyLines = 2000

// playLines prints numbered lines of different lengths to both streams.
func playLines() int {
	var out, err strings.Builder
	for i := range manyLines {
		fmt.Fprintf(&out, "%s %d %s\n", os.Getenv("RANK"), i, strings.Repeat("x", i%200))
		fmt.Fprintf(&err, "%s %d err\n", os.Getenv("RANK"), i)
	}
	fmt.Print(out.String())
	fmt.Fprint(os.Stderr, err.String())
	return 0
}

// playDigest prints the rank and a digest of standard input.
func playDigest() int {
	hash := sha256.New()
	n, err := io.Copy(hash, os.Stdin)
	fmt.Printf("%s %d %x %v\n", os.Getenv("RANK"), n, hash.Sum(nil), err)
	return 0
}

// playStay prints the rank and the location of its store and key, and runs until a signal ends it.
func playStay() int {
	fmt.Printf("%s %s:%s %s\n", os.Getenv("RANK"), os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT"),
		os.Getenv("GORUN_JOB_KEY"))
	time.Sleep(patience)
	return 0
}

// playOutsider connects to a job's stores from a host outside the job.
func playOutsider() int {
	for _, address := range os.Args[1:] {
		fmt.Println(knockAt(net.Dialer{Timeout: 10 * time.Second}, address))
	}
	return 0
}
