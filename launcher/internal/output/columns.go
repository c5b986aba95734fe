package output

import "unicode/utf8"

// columns estimates how many columns of a terminal the text takes: none for escape sequences and control bytes, two
// for most East Asian characters and emoji.
func columns(text []byte) int {
	n := 0
	for len(text) > 0 {
		size, width := glyph(text)
		n += width
		text = text[size:]
	}
	return n
}

// cut returns the longest prefix of the text that fits into the columns, without splitting a character or a sequence.
func cut(text []byte, room int) []byte {
	for i := 0; i < len(text); {
		size, width := glyph(text[i:])
		if room -= width; room < 0 {
			return text[:i]
		}
		i += size
	}
	return text
}

// glyph returns the size in bytes and columns of the first character or sequence.
func glyph(text []byte) (size, width int) {
	if n := escapeLen(text); n > 0 {
		return n, 0
	}
	if text[0] == '\b' {
		return 1, -1
	}
	r, size := utf8.DecodeRune(text)
	return size, runeColumns(r)
}

func runeColumns(r rune) int {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return 0
	case r >= 0x300 && r <= 0x36f, r >= 0x200b && r <= 0x200f, r >= 0xfe00 && r <= 0xfe0f:
		return 0 // marks on the character before, joiners
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// escapeLen returns the length of the escape sequence (ECMA-48) at the start of the text: 0 for none, and that of the
// text if the sequence is incomplete.
func escapeLen(text []byte) int {
	switch {
	case len(text) == 0 || text[0] != 0x1b:
		return 0
	case len(text) == 1:
		return 1
	case text[1] == '[': // control sequence: parameters, then a final byte
		return sequenceLen(text, func(b byte) bool { return b >= 0x40 && b <= 0x7e })
	case text[1] == ']': // operating system command, such as a title: ends with BEL or ESC \
		return commandLen(text)
	}
	return 2
}

func sequenceLen(text []byte, final func(byte) bool) int {
	for i := 2; i < len(text); i++ {
		if final(text[i]) {
			return i + 1
		}
	}
	return len(text)
}

func commandLen(text []byte) int {
	n := sequenceLen(text, func(b byte) bool { return b == 0x07 || b == 0x1b })
	if n < len(text) && text[n-1] == 0x1b && text[n] == '\\' {
		n++
	}
	return n
}
