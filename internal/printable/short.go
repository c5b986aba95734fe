package printable

import (
	"strings"
	"unicode/utf8"
)

// Limits in characters. Paths and lists of usual length stay whole, so that they can be copied.
const (
	maxPiece  = 200 // a longer word or quoted text is cut,
	keptPiece = 60  // to this length
	maxLine   = 4000
)

// Short shortens words and quoted texts of a message that are too long to read, such as those of a mistaken file. Of
// a line that is still too long, it removes the middle.
func Short(s string) string {
	if len(s) <= maxPiece {
		return s
	}
	var b strings.Builder
	quotes := true // false after a quotation mark without a partner: only escaped ones can follow
	for rest := s; rest != ""; {
		size := pieceLength(rest, quotes)
		quotes = quotes && (rest[0] != '"' || size > 1)
		b.WriteString(shortenPiece(rest[:size]))
		rest = rest[size:]
	}
	line := b.String()
	if utf8.RuneCountInString(line) <= maxLine {
		return line
	}
	runes := []rune(line)
	return string(runes[:maxLine/2]) + " … " + string(runes[len(runes)-maxLine/2:])
}

// pieceLength is the length of the first piece of s: a quoted text, a word up to a blank or quotation mark, or a
// single other byte. Without quotes, no text is quoted.
func pieceLength(s string, quotes bool) int {
	switch {
	case s[0] == '"' && quotes:
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return 1
	case s[0] == '"' || s[0] == ' ':
		return 1
	}
	if end := strings.IndexAny(s, " \""); end > 0 {
		return end
	}
	return len(s)
}

// shortenPiece keeps a closing quotation mark and the punctuation after a word.
func shortenPiece(piece string) string {
	if utf8.RuneCountInString(piece) <= maxPiece {
		return piece
	}
	end := piece[len(piece)-1:]
	if !strings.Contains(`":,;`, end) {
		end = ""
	}
	return string([]rune(piece)[:keptPiece]) + "…" + end
}
