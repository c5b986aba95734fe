package signature

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ended are the words with which programs tell how another one ended, and the number behind them: "exit code: 139",
// "exitcode : -9 (pid: 17)", "exited with code 137", "returncode=1", "ExitCode=0:9", "signal 9"; "rc", "status" and the
// like at the beginning alone, where nothing else can be meant.
var ended = sync.OnceValue(compileEnded)

func compileEnded() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)\b(exit(?:ed|ing|s)?(?: ?with)?(?:[ _-]?(?:exit|error|return))?[ _-]?(?:code|status|value)|exited ` +
			`with|return[ _-]?code|signal|` +
			`^(?:exit(?:ed)?|code|status|rc|errorlevel))\s*[:=]?\s*["']?(-?\d{1,4})(?::(\d{1,3}))?\b`)
}

// bare is a number by itself, or a pair of Slurm's.
var bare = sync.OnceValue(compileBare)

func compileBare() *regexp.Regexp { return regexp.MustCompile(`^(-?\d{1,4})(?::(\d{1,3}))?$`) }

// mostSignals is the number of the last signal of Linux.
const mostSignals = 64

// ExitCode reads out of words how a program ended, as a shell tells it: "137" is 128 + the signal. Python's negative
// numbers and the second number of Slurm's pairs are signals; of a pair that is none ("0:125") both numbers are
// returned. It is "" where nothing is said of it, and whole where the words are nothing else.
func ExitCode(words string) (code string, whole bool) {
	words = strings.Trim(strings.TrimSpace(words), ".,;()")
	if m := bare().FindStringSubmatch(words); m != nil {
		code = shellCode(m[1], m[2], false)
		return code, code != ""
	}
	at := ended().FindStringSubmatchIndex(words)
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

// shellCode is the exit code that a shell would show, "" where the numbers are of no process's end.
func shellCode(first, second string, signal bool) string {
	n, err := strconv.Atoi(first)
	own, none := strconv.Atoi(second)
	switch {
	case err != nil || n > 255 || n < -mostSignals:
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
	case signal && (n == 0 || n > mostSignals):
		return ""
	case signal:
		n += 128
	}
	return strconv.Itoa(n)
}

func hasCode(code string) bool {
	return slices.ContainsFunc(All(), func(s Signature) bool { return slices.Contains(s.Codes, code) })
}

// Records of the codes that have none of their own.
const (
	anySignal = "exit-signal"
	anyCode   = "exit-own"
)

// ByCode returns the signature of an exit code, as [ExitCode] writes it.
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
	case n > 128 && n <= 128+mostSignals:
		return ByID(anySignal)
	}
	return ByID(anyCode)
}
