package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// checker builds the program that parses manifests into the API's own types. It is a separate module.
var checker = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "gorun-manifests-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "manifests")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", ".ci", "manifests")
	said, err := build.CombinedOutput()
	return program, wrap(err, said)
})

type buildError struct {
	error
	said []byte
}

func (e buildError) Error() string { return e.error.Error() + "\n" + string(e.said) }

func wrap(err error, said []byte) error {
	if err == nil {
		return nil
	}
	return buildError{err, said}
}

func TestMain(m *testing.M) {
	if os.Getenv("RANK") != "" { // gorun started this process in a batch script
		rank()
		os.Exit(0)
	}
	code := m.Run()
	if program, err := checker(); err == nil {
		_ = os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// check checks a manifest and returns its problems.
func check(t *testing.T, text string) (said string, ok bool) {
	t.Helper()
	program, err := checker()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.Command(program, file).CombinedOutput()
	return string(out), err == nil
}

func example(t *testing.T) string {
	t.Helper()
	var all []string
	for _, name := range []string{"job.yaml", "secret.yaml"} {
		text, err := os.ReadFile(filepath.Join(testneeds.Repository(t), "examples", "kubernetes", name))
		require.NoError(t, err)
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}

func TestKubernetesExample(t *testing.T) {
	said, ok := check(t, example(t))
	require.True(t, ok, said)
}

// The check finds problems that an API server would refuse, or that would leave the nodes waiting.
func TestManifestsThatAreWrong(t *testing.T) {
	for says, change := range map[string][2]string{
		`unknown field "completionsMode"`:     {"completionMode:", "completionsMode:"},
		"cannot unmarshal string":             {"completions: 4", `completions: "4"`},
		"already set in map":                  {"  parallelism: 4", "  completions: 4\n  parallelism: 4"},
		"completionMode is not Indexed":       {"completionMode: Indexed", "completionMode: NonIndexed"},
		"completions and parallelism differ":  {"parallelism: 4", "parallelism: 2"},
		"there is no service":                 {"subdomain: trainer", "subdomain: other"},
		"is not headless":                     {"clusterIP: None", "type: ClusterIP"},
		"does not select the job's pods":      {"job-name: trainer", "job-name: other"},
		"knows pods only when they are ready": {"publishNotReadyAddresses: true", "publishNotReadyAddresses: false"},
		"without --nnodes 4":                  {"- \"4\"\n", "- \"3\"\n"},
		"without --master-addr":               {"- trainer-0.trainer ", "- trainer-0 "},
		"there is no secret":                  {"secretName: trainer-token", "secretName: other"},
		"restartPolicy":                       {"restartPolicy: Never", "restartPolicy: Always"},
		"does not know such objects":          {"kind: Secret", "kind: ConfigMap"},
	} {
		t.Run(says, func(t *testing.T) {
			text := example(t)
			require.Equal(t, 1, strings.Count(text, change[0]), change[0])
			said, ok := check(t, strings.Replace(text, change[0], change[1], 1))
			require.False(t, ok)
			require.Contains(t, said, says)
		})
	}
}
