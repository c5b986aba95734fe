package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/printable"
	"gorun/launcher/job"
)

type tokenOptions struct {
	*commandLine
	file string // "" is standard output
	save bool   // file is the user's default token file
}

func tokenCommand(c *commandLine) *command {
	o := &tokenOptions{commandLine: c}
	return &command{
		request: o,
		Command: cli.Command{
			Usage: "make a token for nodes that you start one by one",
			Description: "gorun token prints a new token, a secret of 256 bits. Nodes of a job that are started one by " +
				"one prove with it that they belong together.",
			Flags: c.Flags(c.group(dialect.GroupOutput, option{
				Names: "out", Value: "FILE", Set: dialect.Text(&o.file),
				Help: "write the token to a new FILE that only you can read",
			}, option{
				Names: "save", Set: dialect.Switch(&o.save),
				Help: "write the token to ~/.config/gorun/token, where your nodes look",
			})...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun token --save", "once, where nodes share your home directory: nodes that join find it"},
				{"gorun token --out job.token", "in a file that only you can read"},
				{"gorun --nnodes 2 --node-rank 0 --token-file job.token …", "uses it, on each node"},
			},
			Codes: []dialect.Example{
				{"0", "it was made"},
				{"2", "a mistake on the command line"},
				{"125", "it could not be written, or the file exists"},
			},
			Last: "A token belongs neither on a command line nor into a log: whoever has it can join the job. " +
				"More: docs/hosts.md.",
		},
	}
}

func (o *tokenOptions) check(words []string) {
	o.refuseArguments("token", words)
	if !o.save {
		return
	}
	if o.file != "" {
		o.refuse("--save and --out both say where: keep one")
	} else if o.file = o.DefaultTokenFile(); o.file == "" {
		o.refuse("--save: neither XDG_CONFIG_HOME nor HOME is set: use --out FILE")
	}
}

func (o *tokenOptions) run() error {
	var token job.Token
	_, _ = rand.Read(token[:]) // never fails
	if o.file == "" {
		return o.print(token.Text() + "\n")
	}
	var err error
	if o.save {
		err = os.MkdirAll(filepath.Dir(o.file), 0o700)
	}
	if err == nil {
		err = writeSecret(o.file, token.Text()+"\n")
	}
	switch {
	case !errors.Is(err, fs.ErrExist):
	case o.save: // made before, perhaps on another host with this home directory
		o.notify("you have a token already: " + o.file)
		return nil
	default:
		return fmt.Errorf("%s exists already, and nodes may use it: name another file", o.file)
	}
	if err != nil {
		return printable.Unwritten(o.file, err)
	}
	if o.save {
		o.notify("wrote " + o.file + ": nodes that join each other use it, wherever they have the same file")
	}
	return nil
}

// writeSecret creates a file that only its owner can read. It leaves no partial file.
func writeSecret(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = cmp.Or(err, f.Close()); err != nil {
		_ = os.Remove(file)
	}
	return err
}
