package signature

import (
	"strings"
)

// vagueTexts are too vague to be searched within lines: "Killed", "Connection reset by peer".
type vagueTexts struct {
	whole map[string]*Signature // by the whole line in lower case
	last  map[string]bool       // their last words, which exclude most lines
}

func newVagueTexts(list []Signature) vagueTexts {
	v := vagueTexts{map[string]*Signature{}, map[string]bool{}}
	for i := range list {
		for _, text := range list[i].Vague {
			text = lower(text)
			v.whole[text], v.last[lastWord(text)] = &list[i], true
		}
	}
	return v
}

// lastWord returns the text after the last blank.
func lastWord[T string | []byte](text T) T {
	at := len(text)
	for at > 0 && text[at-1] != ' ' {
		at--
	}
	return text[at:]
}

// Vague returns the signature with a vague text that is the whole line, without a rank's prefix, or follows its last
// colon, as perror(3) prints it. It is for lines that [Find] does not know; failure reports do not use it.
func Vague(line string) (Match, bool) {
	v := &database().vague
	line = strings.TrimRight(line, " .!")
	if !v.last[lower(lastWord(line))] {
		return Match{}, false
	}
	_, text := WithoutRank(line)
	text = lower(strings.TrimSpace(text))
	for _, end := range []string{text, text[strings.LastIndex(text, ": ")+1:]} {
		if s := v.whole[strings.TrimSpace(end)]; s != nil && !s.excludes(text) {
			return Match{Signature: s}, true
		}
	}
	return Match{}, false
}
