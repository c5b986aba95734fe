package job

import (
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// TokenSize is the size of a token's secret in bytes.
const TokenSize = 32

// Token is the secret shared by all nodes that join a job. Its text is
//
//	gorun1_ and 58 characters a–z, 2–7: base32 of the secret and of the CRC-32
//	(IEEE, big-endian) of the prefix and the secret
//
// so that a typo differs from a token of another job. It prints as its prefix alone.
type Token [TokenSize]byte

const (
	tokenPrefix = "gorun1_"
	tokenDigits = 58 // of 5 bits: 32 bytes of secret, 4 of checksum, and 2 bits that are zero
)

var tokenBase = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Text returns the token with its secret, for files and standard input.
func (t Token) Text() string {
	return tokenPrefix + tokenBase.EncodeToString(binary.BigEndian.AppendUint32(t[:], tokenSum(t[:])))
}

// String returns the prefix, without the secret.
func (t Token) String() string { return tokenPrefix + "…" }

// GoString hides the secret from %#v.
func (t Token) GoString() string { return t.String() }

// tokenSum detects typos; it protects nothing.
func tokenSum(secret []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(tokenPrefix)), crc32.IEEETable, secret)
}

// ParseToken parses the result of Token.Text, with white space around it. Errors never contain the text.
func ParseToken(text string) (t Token, err error) {
	text = strings.TrimSpace(text)
	digits, ok := strings.CutPrefix(text, tokenPrefix)
	switch {
	case text == "":
		return t, errors.New("the token is empty: create one by gorun token")
	case !ok:
		return t, errors.New("not a token: it must begin with " + tokenPrefix + "; create one by gorun token")
	case strings.ContainsAny(digits, " \t\r\n"):
		return t, errors.New("the token contains blanks or line breaks")
	case len(digits) != tokenDigits:
		return t, fmt.Errorf("the token has %d characters after %s instead of %d: a part was lost or doubled "+
			"in copying?", len(digits), tokenPrefix, tokenDigits)
	}
	for i, c := range []byte(digits) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return t, fmt.Errorf("character %d of the token is not a to z or 2 to 7", len(tokenPrefix)+i+1)
		}
	}
	raw, err := tokenBase.DecodeString(digits)
	if err != nil {
		return t, errors.New("cannot read the token: " + err.Error())
	}
	copy(t[:], raw)
	if t.Text() != text {
		return Token{}, errors.New("the token has a typo: its checksum is wrong")
	}
	return t, nil
}
