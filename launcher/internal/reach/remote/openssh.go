package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"gorun/launcher/internal/process/child"
)

// QueryOpenSSH runs ssh -G (4 to 7 ms, unless 'Match exec' runs commands) and returns the options for a host: keywords
// in lower case, some several times, with their values.
func QueryOpenSSH(ctx context.Context, argv, environ []string) (map[string][]string, error) {
	command := child.CommandContext(ctx, argv[0], argv[1:]...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr, command.Env = &out, &problems, environ
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, errors.New("ssh -G did not end in time: a command after 'Match exec' may hang")
		}
		return nil, errors.New("ssh -G: " + cmp.Or(LastLines(problems.String()), err.Error()))
	}
	return ParseDump(out.String()), nil
}

// ParseDump parses the output of ssh -G.
func ParseDump(text string) map[string][]string {
	options := map[string][]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		options[key] = append(options[key], value)
	}
	return options
}
