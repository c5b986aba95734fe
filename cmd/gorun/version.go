package main

import (
	"github.com/urfave/cli/v2"

	"gorun/internal/version"
)

// versionOptions are those of gorun version.
type versionOptions struct{ *call }

func versionCommand(c *call) *command {
	return &command{request: &versionOptions{c}, Command: cli.Command{Usage: "print the version"}}
}

func (o *versionOptions) check(words []string) { o.noWords("version", words) }

func (o *versionOptions) run() int { return o.write(version.Line() + "\n") }
