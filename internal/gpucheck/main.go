// Command gpucheck runs every check that needs NVIDIA's GPUs, one after the other, and writes one report in Markdown.
// `make gpu` builds what it needs and runs it from the clone's root.
//
// It decides nothing itself: each step runs what is there (gorun, tests, examples, nvidia-smi, nccl-tests) and looks
// at what it says. A step that fails is recorded and the next goes on; one that lacks something says what. No step
// changes a GPU's settings. Without a GPU it says "not run" and exits 0, with a failed step it exits 1.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	report := flag.String("report", "build/gpu.md", "file of the report")
	limit := flag.Duration("limit", 5*time.Minute, "time for one step")
	only := flag.String("only", "", "regular expression of the names of steps to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintf(os.Stderr, "gpu: -only: %v\n", err)
		os.Exit(2)
	}
	c := &check{limit: *limit, only: pattern}
	failed := c.run(ctx, steps)
	err = os.MkdirAll(filepath.Dir(*report), 0o755)
	if err == nil {
		err = os.WriteFile(*report, c.report.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "gpu: write the report: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("gpu: %s; the report is %s\n", c.summary, *report)
	if failed > 0 {
		os.Exit(1)
	}
}

// step is one check: commands for bash, which must succeed unless judge looks at them. An exit code of 77 says, as in
// automake's tests, that something is missing; the last line is what. $N is the number of GPUs, $PYTHON a Python
// whose PyTorch sees them.
type step struct {
	name     string
	needs    []string // of the needs below, or a program in PATH
	commands []string
	want     string // regular expression that the output matches
	judge    func(outputs []string) error
	limit    time.Duration // 0: that of all
}

// check is a run of steps.
type check struct {
	limit   time.Duration
	only    *regexp.Regexp
	gpus    int
	python  string
	lacks   map[string]string // by need: why it is missing; "": it is there
	report  bytes.Buffer
	summary string
}

// mostOutput is what the report has of a command's output, from its end.
const mostOutput = 32 << 10

// errMissing says that a step lacks something.
var errMissing = errors.New("missing")

// run runs the steps and writes the report. It returns how many failed.
func (c *check) run(ctx context.Context, all []step) (failed int) {
	list, err := c.bash(ctx, "nvidia-smi -L", time.Minute)
	c.gpus = len(regexp.MustCompile(`(?m)^GPU \d+:`).FindAllString(list, -1))
	fmt.Fprintf(&c.report, "# GPU checks\n\n%s\n\n", time.Now().UTC().Format(time.RFC3339))
	if c.gpus == 0 {
		c.summary = "not run: " + strings.TrimSpace(fmt.Sprint(lastLine(list), " ", noGPU(err)))
		fmt.Fprintln(&c.report, c.summary)
		return 0
	}
	var table, details strings.Builder
	counts := map[string]int{}
	for _, s := range all {
		if !c.only.MatchString(s.name) || ctx.Err() != nil {
			continue
		}
		begun := time.Now()
		outputs, err := c.step(ctx, s)
		verdict, why := "passed", ""
		switch {
		case errors.Is(err, errMissing):
			verdict, why = "not run", strings.TrimPrefix(err.Error(), errMissing.Error()+": ")
		case err != nil:
			verdict, why = "FAILED", err.Error()
		}
		counts[verdict]++
		took, line := time.Since(begun).Seconds(), firstLine(why)
		fmt.Printf("gpu: %-7s %s (%.0f s)%s\n", verdict, s.name, took, strings.TrimSuffix(": "+line, ": "))
		fmt.Fprintf(&table, "| %s | %s | %.0f s | %s |\n", s.name, verdict, took, strings.ReplaceAll(line, "|", `\|`))
		writeDetails(&details, s, why, outputs)
	}
	c.summary = fmt.Sprintf("%d GPUs: %d passed, %d failed, %d not run",
		c.gpus, counts["passed"], counts["FAILED"], counts["not run"])
	if ctx.Err() != nil {
		c.summary += ", ended early"
		counts["FAILED"]++
	}
	fmt.Fprintf(&c.report, "%s\n\n| step | result | time | why |\n| --- | --- | --- | --- |\n%s%s",
		c.summary, table.String(), details.String())
	return counts["FAILED"]
}

func noGPU(err error) string {
	if err != nil {
		return "(nvidia-smi -L: " + err.Error() + ")"
	}
	return "(nvidia-smi lists no GPU)"
}

// writeDetails writes a step's commands and what they said.
func writeDetails(b *strings.Builder, s step, why string, outputs []string) {
	fmt.Fprintf(b, "\n## %s\n", s.name)
	if why != "" {
		fmt.Fprintf(b, "\n%s\n", why)
	}
	for i, output := range outputs {
		if len(output) > mostOutput {
			output = "…" + output[len(output)-mostOutput:]
		}
		output = strings.ToValidUTF8(strings.TrimRight(output, "\n"), "?")
		fmt.Fprintf(b, "\n~~~~console\n$ %s\n%s\n~~~~\n", strings.TrimSpace(s.commands[i]), output)
	}
}

// step runs one step and returns what its commands said.
func (c *check) step(ctx context.Context, s step) (outputs []string, err error) {
	limit := s.limit
	if limit == 0 {
		limit = c.limit
	}
	for _, need := range s.needs {
		if why := c.lack(ctx, need); why != "" {
			return nil, fmt.Errorf("%w: %s", errMissing, why)
		}
	}
	for _, command := range s.commands {
		output, err := c.bash(ctx, command, limit)
		outputs = append(outputs, output)
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == 77:
			return outputs, fmt.Errorf("%w: %s", errMissing, lastLine(output))
		case err != nil:
			return outputs, fmt.Errorf("%w%s", err, strings.TrimSuffix(": "+lastLine(output), ": "))
		}
	}
	if s.want != "" && !regexp.MustCompile(s.want).MatchString(strings.Join(outputs, "\n")) {
		return outputs, fmt.Errorf("its output has nothing like %s", s.want)
	}
	if s.judge != nil {
		return outputs, s.judge(outputs)
	}
	return outputs, nil
}

// lack says why something is missing that a step needs, "" if it is there. Each need is looked at once.
func (c *check) lack(ctx context.Context, need string) string {
	if why, known := c.lacks[need]; known {
		return why
	}
	if c.lacks == nil {
		c.lacks = map[string]string{}
	}
	c.lacks[need] = c.find(ctx, need)
	return c.lacks[need]
}

func (c *check) find(ctx context.Context, need string) string {
	if n, isCount := strings.CutPrefix(need, "GPUs:"); isCount {
		if least, _ := strconv.Atoi(n); c.gpus < least {
			return fmt.Sprintf("it needs %s GPUs, there is %d", n, c.gpus)
		}
		return ""
	}
	switch need {
	case "torch":
		why := "no Python has a PyTorch that sees a GPU"
		for _, python := range []string{".venv/bin/python", "python3"} {
			const asks = ` -c 'import torch; assert torch.cuda.is_available(), "torch.cuda.is_available() is false"'`
			said, err := c.bash(ctx, python+asks, 2*time.Minute)
			if err == nil {
				c.python = python
				return ""
			}
			why += fmt.Sprintf("; %s: %s", python, lastLine(said))
		}
		return why
	case "nccl":
		said, err := c.bash(ctx, "bin/gorun bench allreduce -g 1 -b 8 -e 8 --trials 1", 2*time.Minute)
		if err != nil && regexp.MustCompile(`not found \(searched|no such file|without cgo`).MatchString(said) {
			return "no NCCL for comm: " + lastLine(said)
		}
		return "" // whatever else is wrong is for the step to say
	}
	if _, err := c.bash(ctx, "command -v "+need, time.Minute); err != nil {
		return need + " is not in PATH"
	}
	return ""
}

// bash runs a command with what it starts in a process group of its own, of which nothing is left afterwards.
func (c *check) bash(ctx context.Context, command string, limit time.Duration) (output string, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "bash", "-e", "-o", "pipefail", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // gorun ends its ranks
	cmd.WaitDelay = 15 * time.Second
	cmd.Env = append(os.Environ(), fmt.Sprint("N=", c.gpus), "PYTHON="+c.python, "LC_ALL=C.UTF-8", "NO_COLOR=1")
	if venv, err := filepath.Abs(".venv"); err == nil && os.Getenv("VIRTUAL_ENV") == "" {
		cmd.Env = append(cmd.Env, "VIRTUAL_ENV="+venv) // where comm looks for the NCCL of PyTorch's wheels
	}
	// A file, not a pipe: what a command leaves in the background must not keep its end from being seen.
	file, err := os.CreateTemp("", "gpucheck")
	if err != nil {
		return "", err
	}
	defer file.Close()
	defer os.Remove(file.Name())
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it took more than %v", limit)
	}
	text, readErr := os.ReadFile(file.Name())
	return string(text), errors.Join(err, readErr)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
