// Command gpucheck runs every check that needs NVIDIA GPUs, one after the other, and writes one report in Markdown.
// `make gpu` builds what it needs and runs it from the root of the repository.
//
// Each step runs existing commands (gorun, tests, examples, nvidia-smi, nccl-tests) and checks their output. A failed
// step does not stop the next one; a step without its prerequisites is reported as not run. No step changes a GPU's
// settings. The exit code is 1 if a step failed, else 0, also without a GPU.
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
	r := &runner{limit: *limit, only: pattern}
	failed := r.run(ctx, steps)
	err = os.MkdirAll(filepath.Dir(*report), 0o755)
	if err == nil {
		err = os.WriteFile(*report, r.report.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "gpu: write the report: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("gpu: %s; the report is %s\n", r.summary, *report)
	if failed > 0 {
		os.Exit(1)
	}
}

// step is one check: bash commands that must succeed. As in automake's tests, exit code 77 means that a prerequisite is
// missing, which the last line names. $N is the number of GPUs, $PYTHON a Python whose PyTorch sees them.
type step struct {
	name     string
	needs    []string // prerequisites: see find, or a program in PATH
	commands []string
	want     string // regular expression that the output matches
	check    func(outputs []string) error
	limit    time.Duration // 0 is the default
}

// runner runs steps.
type runner struct {
	limit   time.Duration
	only    *regexp.Regexp
	gpus    int
	python  string
	lacks   map[string]string // by need: why it is missing; "" if it is there
	report  bytes.Buffer
	summary string
}

// maxOutput bounds a command's output in the report, from its end.
const maxOutput = 32 << 10

// errMissing means that a step lacks a prerequisite.
var errMissing = errors.New("missing")

// run runs the steps, writes the report, and returns the number of failed steps.
func (r *runner) run(ctx context.Context, all []step) (failed int) {
	list, err := r.bash(ctx, "nvidia-smi -L", time.Minute)
	r.gpus = len(regexp.MustCompile(`(?m)^GPU \d+:`).FindAllString(list, -1))
	fmt.Fprintf(&r.report, "# GPU checks\n\n%s\n\n", time.Now().UTC().Format(time.RFC3339))
	if r.gpus == 0 {
		r.summary = "not run: " + strings.TrimSpace(fmt.Sprint(lastLine(list), " ", noGPU(err)))
		fmt.Fprintln(&r.report, r.summary)
		return 0
	}
	var table, details strings.Builder
	counts := map[string]int{}
	for _, s := range all {
		if !r.only.MatchString(s.name) || ctx.Err() != nil {
			continue
		}
		begun := time.Now()
		outputs, err := r.step(ctx, s)
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
	r.summary = fmt.Sprintf("%d GPUs: %d passed, %d failed, %d not run",
		r.gpus, counts["passed"], counts["FAILED"], counts["not run"])
	if ctx.Err() != nil {
		r.summary += ", ended early"
		counts["FAILED"]++
	}
	fmt.Fprintf(&r.report, "%s\n\n| step | result | time | why |\n| --- | --- | --- | --- |\n%s%s",
		r.summary, table.String(), details.String())
	return counts["FAILED"]
}

func noGPU(err error) string {
	if err != nil {
		return "(nvidia-smi -L: " + err.Error() + ")"
	}
	return "(nvidia-smi lists no GPU)"
}

// writeDetails writes a step's commands and their output.
func writeDetails(b *strings.Builder, s step, why string, outputs []string) {
	fmt.Fprintf(b, "\n## %s\n", s.name)
	if why != "" {
		fmt.Fprintf(b, "\n%s\n", why)
	}
	for i, output := range outputs {
		if len(output) > maxOutput {
			output = "…" + output[len(output)-maxOutput:]
		}
		output = strings.ToValidUTF8(strings.TrimRight(output, "\n"), "?")
		fmt.Fprintf(b, "\n~~~~console\n$ %s\n%s\n~~~~\n", strings.TrimSpace(s.commands[i]), output)
	}
}

// step runs one step and returns its commands' outputs.
func (r *runner) step(ctx context.Context, s step) (outputs []string, err error) {
	limit := s.limit
	if limit == 0 {
		limit = r.limit
	}
	for _, need := range s.needs {
		if why := r.lack(ctx, need); why != "" {
			return nil, fmt.Errorf("%w: %s", errMissing, why)
		}
	}
	for _, command := range s.commands {
		output, err := r.bash(ctx, command, limit)
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
	if s.check != nil {
		return outputs, s.check(outputs)
	}
	return outputs, nil
}

// lack says why a prerequisite is missing, "" if it is there. It checks each only once.
func (r *runner) lack(ctx context.Context, need string) string {
	if why, known := r.lacks[need]; known {
		return why
	}
	if r.lacks == nil {
		r.lacks = map[string]string{}
	}
	r.lacks[need] = r.find(ctx, need)
	return r.lacks[need]
}

func (r *runner) find(ctx context.Context, need string) string {
	if n, isCount := strings.CutPrefix(need, "GPUs:"); isCount {
		if least, _ := strconv.Atoi(n); r.gpus < least {
			return fmt.Sprintf("it needs %s GPUs, there is %d", n, r.gpus)
		}
		return ""
	}
	switch need {
	case "torch":
		why := "no Python has a PyTorch that sees a GPU"
		for _, python := range []string{".venv/bin/python", "python3"} {
			const asks = ` -c 'import torch; assert torch.cuda.is_available(), "torch.cuda.is_available() is false"'`
			output, err := r.bash(ctx, python+asks, 2*time.Minute)
			if err == nil {
				r.python = python
				return ""
			}
			why += fmt.Sprintf("; %s: %s", python, lastLine(output))
		}
		return why
	case "nccl":
		output, err := r.bash(ctx, "bin/gorun bench allreduce -g 1 -b 8 -e 8 --trials 1", 2*time.Minute)
		if err != nil && regexp.MustCompile(`not found \(searched|no such file|without cgo`).MatchString(output) {
			return "no NCCL for comm: " + lastLine(output)
		}
		return "" // the step reports other failures
	}
	if _, err := r.bash(ctx, "command -v "+need, time.Minute); err != nil {
		return need + " is not in PATH"
	}
	return ""
}

// bash runs a command in a process group of its own, and kills the rest of the group afterwards.
func (r *runner) bash(ctx context.Context, command string, limit time.Duration) (output string, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "bash", "-e", "-o", "pipefail", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // gorun ends its ranks
	cmd.WaitDelay = 15 * time.Second
	cmd.Env = append(os.Environ(), fmt.Sprint("N=", r.gpus), "PYTHON="+r.python, "LC_ALL=C.UTF-8", "NO_COLOR=1")
	if venv, err := filepath.Abs(".venv"); err == nil && os.Getenv("VIRTUAL_ENV") == "" {
		cmd.Env = append(cmd.Env, "VIRTUAL_ENV="+venv) // where comm looks for the NCCL of PyTorch's wheels
	}
	// A file, not a pipe: a background process that holds a pipe open would delay Run.
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
