package nccllog

import "strings"

// isNumbered reports whether the number after a word is an index rather than a value.
func isNumbered(word string) bool {
	switch word {
	case "rank", "localrank", "peer", "pid", "process", "dev", "device", "cudadev", "nvmldev", "gpu", "busid", "fd",
		"channel", "proxyrank", "tprank":
		return true
	}
	return false
}

// normalize replaces what differs between ranks with the same problem: pointers, ports, and the numbers of ranks,
// processes, devices and channels. The result is for comparison only.
func normalize(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	word := "" // the last complete one
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '0' && i+2 < len(text) && text[i+1] == 'x' && isHex(text[i+2]):
			i += 2
			for i < len(text) && isHex(text[i]) {
				i++
			}
			b.WriteByte('#')
		case isDigit(c):
			from := i
			for i < len(text) && isDigit(text[i]) {
				i++
			}
			port := from > 0 && text[from-1] == '<' && i < len(text) && text[i] == '>'
			if port || isNumbered(word) {
				b.WriteByte('#')
			} else {
				b.WriteString(text[from:i])
			}
			word = ""
		case isLetter(c):
			from := i
			for i < len(text) && (isLetter(text[i]) || isDigit(text[i])) {
				i++
			}
			word = strings.ToLower(text[from:i])
			if trimmed := strings.TrimRight(word, "0123456789"); trimmed != word && isNumbered(trimmed) {
				b.WriteString(trimmed + "#")
			} else {
				b.WriteString(text[from:i])
			}
		default:
			if c != ' ' && c != '=' && c != ':' && c != '(' && c != '[' {
				word = ""
			}
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
