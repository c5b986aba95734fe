package dialect

import (
	"regexp"
	"slices"
	"strings"

	"gorun/internal/shellwords"
)

// refusal returns why an option is refused and what to use instead, with the given value in place of its
// placeholders, so that it can be pasted: -ppn 2 becomes --nproc-per-node 2.
func (o *Option) refusal(value string) string {
	names := o.placeholders()
	values := []string{value}
	if len(names) > 1 {
		values = strings.SplitN(value, "=", len(names))
	}
	if len(names) != len(values) {
		return o.Help // not all of them were given: --mca=btl
	}
	return regexp.MustCompile(`[A-Za-z]+`).ReplaceAllStringFunc(o.Help, func(word string) string {
		if at := slices.Index(names, word); at >= 0 {
			return shellwords.Quote(values[at])
		}
		return word
	})
}

// ownName replaces gorun in commands to type by the name under which it was called, if that takes the same options.
func (d *Dialect) ownName(text string) string {
	if !d.colons {
		return text
	}
	return strings.NewReplacer("gorun -n", d.Name+" -n", "gorun ...", d.Name+" ...").Replace(text)
}

// placeholders returns the words of Value in capitals; none if one is a list or a choice.
func (o *Option) placeholders() []string {
	names := strings.Fields(o.Value)
	for _, name := range names {
		if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return nil
		}
	}
	return names
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
