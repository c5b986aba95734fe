package dialect

import (
	"slices"
	"strings"
)

// refusal is why an option is refused and what to use instead, with the value that
// was given in place of the placeholders: -ppn 2 is answered by --nproc-per-node 2,
// which can be typed as it stands.
func (o *Option) refusal(value string) string {
	names := o.placeholders()
	values := []string{value}
	if len(names) > 1 {
		values = strings.SplitN(value, "=", len(names))
	}
	if len(names) != len(values) {
		return o.Help // not all of them were given: --mca=btl
	}
	return eachWord(o.Help, func(word string) string {
		if at := slices.Index(names, word); at >= 0 {
			return shellWord(values[at])
		}
		return word
	})
}

// ownName has what a text says to type begin with the name by which gorun was called, where
// that takes the same words.
func (d *Dialect) ownName(text string) string {
	if !d.colons {
		return text
	}
	return strings.NewReplacer("gorun -n", d.Name+" -n", "gorun ...", d.Name+" ...").Replace(text)
}

// placeholders are the words in capitals for which the option's value stands; none
// for a flag, or for a value that is one of several words or a list.
func (o *Option) placeholders() []string {
	names := strings.Fields(o.Value)
	for _, name := range names {
		if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return nil
		}
	}
	return names
}

// eachWord changes every run of letters: KEY in OMPI_MCA_KEY=VALUE is one, N in
// NAME is none.
func eachWord(text string, change func(word string) string) string {
	var b strings.Builder
	for len(text) > 0 {
		end := 0
		for end < len(text) && isLetter(text[end]) {
			end++
		}
		if end > 0 {
			b.WriteString(change(text[:end]))
			text = text[end:]
			continue
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// shellWord is a value as a shell reads it back.
func shellWord(value string) string {
	plain := func(r rune) bool {
		return r < 0x80 && isLetter(byte(r)) || r >= '0' && r <= '9' || strings.ContainsRune("+,-./:=@_%^", r)
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0 {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
