package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gorun/launcher/job"
)

// makeToken writes a new token to a new file, "" is standard output, and returns the exit code.
func makeToken(file string, stdout, stderr io.Writer) int {
	var token job.Token
	_, _ = rand.Read(token[:]) // it never fails
	if file == "" {
		return write(stdout, stderr, token.Text()+"\n")
	}
	err := writeSecret(file, token.Text()+"\n")
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s exists already, and nodes may use it: remove it first, or name another file", file)
	}
	if err != nil {
		say(stderr, "write the token: "+err.Error())
		return job.ExitLauncher
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
