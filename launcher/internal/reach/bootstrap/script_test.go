package bootstrap

import (
	"crypto/sha256"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func sum(b []byte) []byte {
	s := sha256.Sum256(b)
	return s[:]
}

// said returns the arguments that a command gets when a line for this shell contains texts.
func said(t *testing.T, shell string, texts []string) []string {
	var v variables
	list := v.refs(texts)
	line := commandLine(v.commands() + `; exec printf "%s\000" ` + list)
	out, err := exec.Command(shell, "-c", line).Output()
	require.NoError(t, err, line)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func TestRandomTextsPassEveryShell(t *testing.T) {
	random := testneeds.Rand(t)
	texts := make([]string, testneeds.Count(200, 4000))
	for i := range texts {
		texts[i] = randomText(random)
	}
	shells(t, func(t *testing.T, shell string) {
		for part := texts; len(part) > 0; part = part[min(100, len(part)):] {
			now := part[:min(100, len(part))]
			require.Equal(t, now, said(t, shell, now))
		}
	})
}

// randomText returns mostly bytes that are special in a shell.
func randomText(random *rand.Rand) string {
	const special = "'\"\\$`!(){}[]*?~#&|;<> \t\n\r%^=-@,.:/0aZ"
	b := make([]byte, random.IntN(12))
	for i := range b {
		if b[i] = special[random.IntN(len(special))]; random.IntN(5) == 0 {
			b[i] = byte(1 + random.IntN(255))
		}
	}
	return string(b)
}

func FuzzTextPassesSh(f *testing.F) {
	f.Add("it's $(x)!\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			t.Skip()
		}
		require.Equal(t, []string{text}, said(t, "sh", []string{text}))
	})
}

// No line may contain syntax that shells interpret differently.
func TestScriptsHaveNothingThatShellsReadDifferently(t *testing.T) {
	for name, script := range map[string]string{
		"start": startScript, "copy": copyScript, "agent": agentScript,
		"private": privateScript, "place": placeScript, "bring": bringScript,
	} {
		line := oneLine(script)
		for _, bad := range []string{"'", "!", `\\`, "\n"} {
			require.NotContains(t, line, bad, name)
		}
	}
}
