package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleToken returns a token that is used only in tests.
func sampleToken() (t Token) {
	for i := range t {
		t[i] = byte(i * 37)
	}
	return t
}

func TestTokenComesBack(t *testing.T) {
	token := sampleToken()
	text := token.Text()
	require.Regexp(t, `^gorun1_[a-z2-7]{58}$`, text)
	for _, around := range []string{text, text + "\n", " " + text + "\r\n"} {
		back, err := ParseToken(around)
		require.NoError(t, err)
		require.Equal(t, token, back)
	}
}

func TestTokenIsNotPrinted(t *testing.T) {
	token := sampleToken()
	for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		printed := fmt.Sprintf(verb, token)
		require.Contains(t, printed, "gorun1_…")
		require.Less(t, len(printed), 20)
	}
}

// Any change of one character is detected, and no error message repeats the input.
func TestTokenTypos(t *testing.T) {
	text := sampleToken().Text()
	for i := range text {
		for _, c := range []byte("az27A018_") {
			typo := text[:i] + string(c) + text[i+1:]
			if typo == text {
				continue
			}
			_, err := ParseToken(typo)
			require.Error(t, err, typo)
			require.NotContains(t, err.Error(), text[10:20])
		}
	}
}

func TestTokenProblems(t *testing.T) {
	text := sampleToken().Text()
	for typed, says := range map[string]string{
		"":                          "empty",
		" \n":                       "empty",
		"secret":                    "must begin with gorun1_",
		text[7:]:                    "must begin with gorun1_",
		text[:len(text)-1]:          "has 57 characters",
		text + "a":                  "has 59 characters",
		text + "\n" + text:          "blanks or line breaks",
		text[:30] + text[31:]:       "has 57 characters",
		strings.ToUpper(text):       "must begin with gorun1_",
		text[:20] + "-" + text[21:]: "character 21 of the token",
	} {
		_, err := ParseToken(typed)
		require.ErrorContains(t, err, says)
	}
	swapped := []byte(text)
	for i := range swapped[:len(swapped)-1] {
		if i > len(tokenPrefix) && swapped[i] != swapped[i+1] {
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			break
		}
	}
	_, err := ParseToken(string(swapped))
	require.ErrorContains(t, err, "typo")
}

func FuzzParseToken(f *testing.F) {
	f.Add(sampleToken().Text())
	f.Add("gorun1_")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err == nil {
			require.Equal(t, strings.TrimSpace(text), token.Text())
		}
	})
}
