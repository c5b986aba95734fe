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

// Sbatch submits a script ("#!/bin/sh\n…") with options of sbatch, and returns the job's id. Output reads its output,
// unless an option redirects it.
func (c *Cluster) Sbatch(t testing.TB, script string, options ...string) int {
	t.Helper()
	cmd := c.Command(t, "sbatch", append([]string{"--parsable", "--output=" + c.path("out", "%j")}, options...)...)
	cmd.Stdin = strings.NewReader(script)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	job, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	return job
}

// Output returns what a job of Sbatch has written so far: batch script and steps, standard output and error.
func (c *Cluster) Output(t testing.TB, job int) string {
	t.Helper()
	text, err := os.ReadFile(c.path("out", strconv.Itoa(job)))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}

// finalStates are the states of ended jobs, as in squeue(1).
var finalStates = []string{
	"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
	"PREEMPTED", "TIMEOUT",
}

// State returns the state of a job, as in squeue(1): PENDING, RUNNING, COMPLETED, TIMEOUT and so on.
func (c *Cluster) State(t testing.TB, job int) string {
	t.Helper()
	return c.Field(t, job, "JobState")
}

// Field returns a field of scontrol show job: "ExitCode", "BatchHost", "NodeList"; "" if none exists.
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

// Wait waits until a job has ended on all its nodes (it stays COMPLETING while a slurmd is gone), and returns its
// state.
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

// Cancel cancels a job, or sends it a signal with options such as "--signal=USR1", "--batch".
func (c *Cluster) Cancel(t testing.TB, job int, options ...string) {
	t.Helper()
	_, err := c.run("scancel", append(options, strconv.Itoa(job))...)
	require.NoError(t, err)
}

// Expire ends a job's time limit now; Slurm refuses an end that is over when the request arrives. It checks time limits
// every 30 seconds.
func (c *Cluster) Expire(t testing.TB, job int) {
	t.Helper()
	c.EndAt(t, job, "now+5seconds")
}

// EndAt sets the end of a job's time limit, in scontrol's format: now, now+1minute.
func (c *Cluster) EndAt(t testing.TB, job int, end string) {
	t.Helper()
	_, err := c.run("scontrol", "update", "JobId="+strconv.Itoa(job), "EndTime="+end)
	require.NoError(t, err)
}
