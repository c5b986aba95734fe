package dialect

import (
	"errors"
	"fmt"
	"strings"
)

// splitCommand splits a command at blanks, with a shell's quotes and backslashes. No shell will run it, so
// it refuses what only a shell can expand or connect, unless it is quoted.
func splitCommand(line string) ([]string, error) {
	words, err := splitWords(line, false)
	if err == nil && (len(words) == 0 || words[0] == "") {
		return nil, errors.New("no program: the value is a command such as 'ssh -K'")
	}
	return words, err
}

// splitWords splits as splitCommand does; literal accepts what only a shell can expand, as it is.
func splitWords(line string, literal bool) (words []string, err error) {
	var word strings.Builder
	open, quote := false, byte(0) // a word has begun, if only by empty quotes; the open quote
	for i := 0; i < len(line); i++ {
		c := line[i]
		escapes := c == '\\' && quote != '\'' &&
			(quote == 0 || i+1 < len(line) && strings.IndexByte("\"\\$`", line[i+1]) >= 0)
		switch {
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case escapes && i+1 == len(line):
			return nil, errors.New(`a backslash at the end has nothing to escape: write \\ for one`)
		case escapes:
			i++
			word.WriteByte(line[i])
		case !literal && (quote == 0 && strings.IndexByte("|&;<>()$`", c) >= 0 || quote == '"' && (c == '$' || c == '`')):
			return nil, fmt.Errorf(
				"%q is shell syntax, but no shell runs this command: put it in single quotes, or the command in a script", c)
		default:
			word.WriteByte(c)
		}
		open = true
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a %c is not closed", quote)
	case open:
		words = append(words, word.String())
	}
	return words, nil
}
