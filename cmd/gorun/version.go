package main

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/internal/version"
	"gorun/launcher"
)

// versionOptions are those of gorun version.
type versionOptions struct{ *call }

func versionCommand(c *call) *command {
	return &command{
		request: &versionOptions{c},
		Command: cli.Command{
			Usage: "print the version",
			Description: "gorun version prints the version, the platform and the Go release that built it. With --json also " +
				"the commit, the dialects and the version of what launcher and agents send each other.",
			Flags: c.Flags(own(dialect.GroupShown, c.jsonOption("print everything as JSON"))...),
		},
		Page: dialect.Page{
			Examples: []dialect.Example{
				{"gorun version", "one line"},
				{"gorun version --json", "for programs and bug reports"},
			},
			Codes: []dialect.Example{
				{"0", "it was printed"}, {"2", "a mistake on the command line"}, {"125", "gorun's own error"},
			},
			Last: "gorun --version prints the same line, whatever else stands on the command line.",
		},
	}
}

func (o *versionOptions) check(words []string) { o.noWords("version", words) }

func (o *versionOptions) run() error {
	facts := versionJSON{
		Version: version.String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Wire: launcher.WireVersion,
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
	return o.show(facts, func() string { return version.Line() + "\n" })
}

// versionJSON is which gorun this is, for programs.
type versionJSON struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"` // none where it was not built in a checkout
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Dialects []string `json:"dialects"`
	Wire     int      `json:"wire"` // of the frames between launcher and agents, which have to agree on it
}
