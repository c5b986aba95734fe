package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/job"
)

// makeToken writes a new token to a new file or to standard output, and returns the exit code.
func makeToken(inv dialect.Invocation, stdout, stderr io.Writer) int {
	file := inv.Wished
	var token job.Token
	_, _ = rand.Read(token[:]) // it never fails
	if file == "" {
		return write(stdout, stderr, token.Text()+"\n")
	}
	var err error
	if inv.Saved {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = writeSecret(file, token.Text()+"\n")
	}
	switch {
	case !errors.Is(err, fs.ErrExist):
	case inv.Saved: // the next line of a hint, or the next host with this home directory
		say(stderr, "you have a token already: "+file)
		return 0
	default:
		err = fmt.Errorf("%s exists already, and nodes may use it: name another file", file)
	}
	if err != nil {
		say(stderr, "write the token: "+err.Error())
		return job.ExitLauncher
	}
	if inv.Saved {
		say(stderr, "wrote "+file+": nodes that join each other use it, wherever they have the same file")
	}
	return 0
}

// writeSecret makes a file that only its owner can read. A file that could not be written whole is removed.
func writeSecret(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}
