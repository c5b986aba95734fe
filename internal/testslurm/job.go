package testslurm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sbatch submits a script ("#!/bin/sh\n…") with options of sbatch, and returns the job's id. Its output comes into a
// file, which Output reads, unless an option says otherwise.
func (c *Cluster) Sbatch(t testing.TB, script string, options ...string) int {
	t.Helper()
	cmd := c.Command(t, "sbatch", append([]string{"--parsable", "--output=" + c.path("out", "%j")}, options...)...)
	cmd.Stdin = strings.NewReader(script)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	job, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	return job
}

// Output is what a job of Sbatch has written so far: batch script and steps, both standard output and standard error.
func (c *Cluster) Output(t testing.TB, job int) string {
	t.Helper()
	text, err := os.ReadFile(c.path("out", strconv.Itoa(job)))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}

// finalStates are the states that a job doesn't leave, as squeue(1) spells them.
var finalStates = []string{
	"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
	"PREEMPTED", "TIMEOUT",
}

// State is that of a job, as squeue(1) spells it: PENDING, RUNNING, COMPLETED, TIMEOUT and so on.
func (c *Cluster) State(t testing.TB, job int) string {
	t.Helper()
	return c.Field(t, job, "JobState")
}

// Field is one that scontrol shows of a job: "ExitCode", "BatchHost", "NodeList"; "" where there is none.
func (c *Cluster) Field(t testing.TB, job int, name string) string {
	t.Helper()
	value, err := c.field(job, name)
	require.NoError(t, err)
	return value
}

func (c *Cluster) field(job int, name string) (string, error) {
	out, err := c.run("scontrol", "show", "job", "-o", strconv.Itoa(job))
	if err != nil {
		return "", err
	}
	if match := regexp.MustCompile(`(?:^|\s)` + name + `=(\S*)`).FindStringSubmatch(out); match != nil {
		return match[1], nil
	}
	return "", nil
}

// Wait waits until a job has ended, on all its nodes (it stays COMPLETING while the slurmd of one is gone), and returns
// its state.
func (c *Cluster) Wait(t testing.TB, job int) string {
	t.Helper()
	var state string
	err := c.until(fmt.Sprintf("job %d ends", job), func() (ended bool, err error) {
		state, err = c.field(job, "JobState")
		return slices.Contains(finalStates, state), err
	})
	require.NoError(t, err, "it is %s", state)
	return state
}

// WaitState waits until a job has a state, such as RUNNING.
func (c *Cluster) WaitState(t testing.TB, job int, state string) {
	t.Helper()
	require.NoError(t, c.until(fmt.Sprintf("job %d is %s", job, state), func() (bool, error) {
		now, err := c.field(job, "JobState")
		if err == nil && now != state && slices.Contains(finalStates, now) {
			err = fmt.Errorf("job %d has ended: %s", job, now)
		}
		return now == state, err
	}))
}

// Cancel ends a job, or sends it what options say: "--signal=USR1", "--batch".
func (c *Cluster) Cancel(t testing.TB, job int, options ...string) {
	t.Helper()
	_, err := c.run("scancel", append(options, strconv.Itoa(job))...)
	require.NoError(t, err)
}

// Expire makes this moment the end of a job's time. Slurm looks at time limits every 30 seconds: the job is told to end
// at the next look.
func (c *Cluster) Expire(t testing.TB, job int) {
	t.Helper()
	c.EndAt(t, job, "now")
}

// EndAt gives a job another end, in scontrol's words: now, now+1minute.
func (c *Cluster) EndAt(t testing.TB, job int, end string) {
	t.Helper()
	_, err := c.run("scontrol", "update", "JobId="+strconv.Itoa(job), "EndTime="+end)
	require.NoError(t, err)
}
