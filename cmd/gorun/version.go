package main

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/version"
	"gorun/launcher"
)

type versionOptions struct{ *commandLine }

func versionCommand(c *commandLine) *command {
	return &command{
		request: &versionOptions{c},
		Command: cli.Command{
			Usage: "print the version",
			Description: "gorun version prints the version, the platform and the Go release that built it. With --json also " +
				"the commit, the dialects and the version of what launcher and agents send each other.",
			Flags: c.Flags(c.group(dialect.GroupShown, c.jsonOption("print everything as JSON"))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun version", "one line"},
				{"gorun version --json", "for programs and bug reports"},
			},
			Codes: []dialect.Example{
				{"0", "it was printed"}, {"2", "a mistake on the command line"}, {"125", "gorun's own error"},
			},
			Last: "gorun --version prints the same line.",
		},
	}
}

func (o *versionOptions) check(words []string) { o.refuseArguments("version", words) }

func (o *versionOptions) run() error {
	facts := versionJSON{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, WireVersion: launcher.WireVersion,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				facts.Commit = s.Value
			}
		}
	}
	for _, d := range []*dialect.Dialect{
		dialect.Gorun, dialect.Torchrun, dialect.Launch, dialect.Mpirun, dialect.Prterun, dialect.Mpiexec,
	} {
		facts.Dialects = append(facts.Dialects, d.Name)
	}
	return o.printResult("version", facts, func() string { return version.Line() + "\n" })
}

type versionJSON struct {
	Commit   string   `json:"commit,omitempty"` // only if built in a checkout
	Go       string   `json:"go"`               // the Go release that built it
	Platform string   `json:"platform"`         // "linux/amd64"
	Dialects []string `json:"dialects"`         // names under which gorun has other options
	// WireVersion is the version of the frames between launcher and agents, which must be equal.
	WireVersion int `json:"wire_version"`
}
