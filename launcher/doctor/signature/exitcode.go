package signature

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// exitPattern matches how programs report another one's end: "exit code: 139", "exitcode : -9 (pid: 17)", "exited with
// code 137", "returncode=1", "ExitCode=0:9", "signal 9". Ambiguous words such as "rc" and "status" only count at the
// beginning.
var exitPattern = sync.OnceValue(compileExitPattern)

func compileExitPattern() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)\b(exit(?:ed|ing|s)?(?: ?with)?(?:[ _-]?(?:exit|error|return))?[ _-]?(?:code|status|value)|exited ` +
			`with|return[ _-]?code|signal|` +
			`^(?:exit(?:ed)?|code|status|rc|errorlevel))\s*[:=]?\s*["']?(-?\d{1,4})(?::(\d{1,3}))?\b`)
}

// codePattern matches a single number, or a Slurm pair.
var codePattern = sync.OnceValue(compileCodePattern)

func compileCodePattern() *regexp.Regexp { return regexp.MustCompile(`^(-?\d{1,4})(?::(\d{1,3}))?$`) }

// maxSignal is Linux's last signal.
const maxSignal = 64

// ExitCode finds in words how a program ended, and returns it as a shell does: "137" is 128 + the signal. Python's
// negative numbers and the second number of Slurm's pairs are signals; a known pair without a signal ("0:125") is
// returned as it is. It returns "" if the words have no exit code. whole reports whether they have nothing else.
func ExitCode(words string) (code string, whole bool) {
	words = strings.Trim(strings.TrimSpace(words), ".,;()")
	if m := codePattern().FindStringSubmatch(words); m != nil {
		code = shellCode(m[1], m[2], false)
		return code, code != ""
	}
	at := exitPattern().FindStringSubmatchIndex(words)
	if at == nil {
		return "", false
	}
	second := ""
	if at[6] >= 0 {
		second = words[at[6]:at[7]]
	}
	code = shellCode(words[at[4]:at[5]], second, strings.EqualFold(words[at[2]:at[3]], "signal"))
	return code, code != "" && at[0] == 0 && at[1] == len(words)
}

// shellCode returns the exit code that a shell would show, "" if the numbers cannot be one.
func shellCode(first, second string, signal bool) string {
	n, err := strconv.Atoi(first)
	own, none := strconv.Atoi(second)
	switch {
	case err != nil || n > 255 || n < -maxSignal:
		return ""
	case none == nil && own > 0:
		if known := first + ":" + second; n == 0 && hasCode(known) {
			return known
		}
		n, signal = own, true
	}
	switch {
	case n < 0:
		n = 128 - n
	case signal && (n == 0 || n > maxSignal):
		return ""
	case signal:
		n += 128
	}
	return strconv.Itoa(n)
}

func hasCode(code string) bool {
	return slices.ContainsFunc(All(), func(s Signature) bool { return slices.Contains(s.Codes, code) })
}

// IDs of the records for codes without one of their own.
const (
	anySignal = "exit-signal"
	anyCode   = "exit-own"
)

// ByCode returns the signature of an exit code in the format of [ExitCode].
func ByCode(code string) (Match, bool) {
	for i := range All() {
		if slices.Contains(All()[i].Codes, code) {
			return Match{Signature: &All()[i]}, true
		}
	}
	n, err := strconv.Atoi(code)
	switch {
	case err != nil || n < 0 || n > 255:
		return Match{}, false
	case n > 128 && n <= 128+maxSignal:
		return ByID(anySignal)
	}
	return ByID(anyCode)
}
