package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/launcher/job"
)

// explainedFile runs gorun explain with a file and returns standard output, standard error and the exit code.
func explainedFile(t *testing.T, content string) (stdout, stderr string, code int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "job")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	var out, err bytes.Buffer
	o := &explainOptions{commandLine: newCommandLine(dialect.Surroundings{}, nil, &out, &err), words: []string{name}}
	code = o.reportErrors(o.run())
	return out.String(), strings.ReplaceAll(err.String(), name, "FILE"), code
}

// gorun refuses files that are not text, with a command that converts them. Zeros and colours in a log are
// accepted.
func TestExplainOddFiles(t *testing.T) {
	for content, want := range map[string]string{
		"\x7fELF\x02\x01\x01":                    "FILE is a binary file, not text; ",
		"\x1f\x8b\x08\x00":                       "FILE is packed: gzip -dc FILE | gorun explain -",
		"\xff\xfeB\x00":                          "FILE is in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | gorun explain -",
		strings.Repeat("\x80\x01\xfe\x02ab", 99): "FILE is a binary file, not text; ",
	} {
		stdout, stderr, code := explainedFile(t, content)
		assert.Equal(t, job.ExitUsage, code, "%q", content)
		assert.Contains(t, stderr, want)
		assert.Empty(t, stdout)
	}
	for _, content := range []string{
		strings.Repeat("\x00", 9000) + "Too many open files\n", "\x1b[31mToo many open files\x1b[0m\r\n",
		"caf\xe9 \xfc: Too many open files\n", "Zu viele: Too many open files … ✓\n",
	} {
		stdout, stderr, code := explainedFile(t, content)
		assert.Zero(t, code, "%q", content)
		assert.Contains(t, stdout, "system-open-files: ")
		assert.Empty(t, stderr)
	}
	_, _, code := explainedFile(t, "")
	assert.Equal(t, exitUnknown, code)
}

// A note reports that a line was too long to read or to print in full.
func TestExplainSaysWhatIsCut(t *testing.T) {
	stdout, stderr, code := explainedFile(t, "Too many open files"+strings.Repeat(" x", 4000)+"\nfine\n")
	assert.Zero(t, code)
	assert.Contains(t, stdout, "… (cut)\n")
	assert.Equal(t, "gorun: 1 line is longer than 4096 bytes; the rest was not read\n", stderr)
	_, stderr, _ = explainedFile(t, strings.Repeat("x", 5000)+"\n"+strings.Repeat("y", 5000))
	assert.Contains(t, stderr, "gorun: 2 lines are longer than 4096 bytes")
	_, stderr, _ = explainedFile(t, "Too many open files "+strings.Repeat("x", 4000)+"\n")
	assert.Empty(t, stderr)
}

func TestLikeAPath(t *testing.T) {
	for word, want := range map[string]bool{
		"./x": true, "../x.log": true, "/dev/shm/x": true, "~/job": true, "logs/rank0": true, "job.log": true,
		"slurm-17.out": true, "x.err": true,
		"ncclSystemError": false, "137": false, "nccl-shm-full": false, "/dev/shm: No space left on device": false,
		"NET/IB : No device found": false, "a:b/c": false, "train.py": false,
	} {
		assert.Equal(t, want, looksLikePath(word), word)
	}
}

// Where no known error is the cause, gorun's own report in the log says which rank failed first, and how.
func TestExplainOwnReport(t *testing.T) {
	for before, headline := range map[string]string{
		"hello": "rank 1 failed first: exit code 1 (pid 7, after 4s)",
		"[0]: RuntimeError: [pair.cc:561] gloo/transport/tcp/pair.cc Connection closed by peer [127.0.0.1]:2": "ranks [2-3]" +
			" ended first, with exit code 0, while the others still ran; then rank 1 lost a connection: exit code 1 (pid 7)",
	} {
		_, stderr, _ := explainedFile(t, before+"\ngorun: "+headline+"\n  error    [1] KeyError: 'x' (see above)\n")
		assert.Equal(t, "gorun: no known error is the cause; line 2 says: "+headline+": KeyError: 'x'\n", stderr)
	}
}
