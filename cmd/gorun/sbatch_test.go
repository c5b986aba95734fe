package main

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// Whatever is typed reaches the program as it was, through the script and bash.
func TestWordsSurviveTheBatchScript(t *testing.T) {
	words := []string{
		"", "--", "-n", "a b", "it's", `"`, `\`, `\\n`, "$HOME", "`id`", "$(id)", "!!", "~", "*", "a\nb",
		"a\r\nb", "\x01\x7f", "é", "\xff", "#x", "a=b", "\n#SBATCH --nodes=3",
	}
	random := testneeds.Rand(t)
	for range testneeds.Count(200, 5000) {
		words = append(words, anyWord(random))
	}
	const printf = "/usr/bin/printf"
	script := (&sbatchOptions{line: append([]string{`%s\0`}, words...)}).script(printf)
	require.NotContains(t, script, "\r")
	bash := exec.Command("bash")
	bash.Stdin = strings.NewReader(script)
	said, err := bash.Output()
	require.NoError(t, err)
	require.Equal(t, words, strings.Split(strings.TrimSuffix(string(said), "\x00"), "\x00"))
}

// anyWord is of bytes that mean something to a shell more often than not.
func anyWord(random *rand.Rand) string {
	const special = "ab '\"\\$`!#&|;<>()[]{}*?~=\n\r\t-"
	word := make([]byte, random.IntN(12))
	for i := range word {
		word[i] = special[random.IntN(len(special))]
		if random.IntN(4) == 0 {
			word[i] = byte(1 + random.IntN(255))
		}
	}
	return string(word)
}

// sbatch reads quotes, backslashes and # (this is what one of Slurm 22.05 was seen to read back).
func TestOptionsInTheBatchScript(t *testing.T) {
	for option, line := range map[string]string{
		"--hold":                 "--hold",
		"--nodes=2":              "--nodes=2",
		"--nodelist=n[1-3,5]":    "--nodelist=n[1-3,5]",
		"--signal=B:USR1@60":     "--signal=B:USR1@60",
		"--output=%x-%j.out":     "--output=%x-%j.out",
		"--comment=two words #1": `--comment="two words #1"`,
		`--comment=a"b\c'd`:      `--comment="a\"b\\c'd"`,
		"--comment=":             `--comment=""`,
	} {
		require.Equal(t, line, sbatchQuote(option))
	}
}

// A job that is submitted from within another one is none of its steps.
func TestBatchJobsForgetTheJobAround(t *testing.T) {
	require.Equal(t, []string{"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SBATCH_PARTITION=p", "GORUN_LABEL=never"},
		ofNoJob([]string{
			"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURMD_NODENAME=n1",
			"SBATCH_PARTITION=p",
			"GORUN_JOB=x", "GORUN_JOB_ENGINE=slurm:7", "GORUN_JOB_KEY=/k", "GORUN_JOB_STORE=h:1", "GORUN_LABEL=never",
		}))
}
