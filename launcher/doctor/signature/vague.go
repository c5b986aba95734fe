package signature

import (
	"strings"
)

// vagueTexts are those that say too little to be looked for within lines: "Killed", "Connection reset by peer".
type vagueTexts struct {
	whole map[string]*Signature // by a whole line in small letters
	last  map[string]bool       // their last words, by which most lines are sorted out
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

// lastWord is what stands behind the last blank.
func lastWord(text string) string { return text[strings.LastIndexByte(text, ' ')+1:] }

// Vague returns the signature of a line that is of none by [Find], but is one of a signature's vague texts, behind a
// rank's label, or has it behind its last colon, as perror writes. Reports of failures give no hint by it.
func Vague(line string) (Match, bool) {
	v := &database().vague
	line = strings.TrimRight(line, " .!")
	if !v.last[lower(lastWord(line))] {
		return Match{}, false
	}
	_, text := WithoutRank(line)
	text = lower(strings.TrimSpace(text))
	for _, text := range []string{text, text[strings.LastIndex(text, ": ")+1:]} {
		if s := v.whole[strings.TrimSpace(text)]; s != nil {
			return Match{Signature: s}, true
		}
	}
	return Match{}, false
}
