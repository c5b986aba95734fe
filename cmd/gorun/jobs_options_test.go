package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJobCommands(t *testing.T) {
	for line, want := range map[string]jobsRequest{
		"gorun ps":                             {Command: "ps"},
		"gorun ps 7f3a":                        {Command: "ps", Names: []string{"7f3a"}},
		"gorun top --":                         {Command: "top"},
		"gorun ps --nccl":                      {Command: "ps", NCCL: true},
		"gorun ps 7f3a --nccl":                 {Command: "ps", Names: []string{"7f3a"}, NCCL: true},
		"gorun logs 7f3a -f --rank 3":          {Command: "logs", Names: []string{"7f3a"}, Follow: true, Rank: new(3)},
		"gorun logs --follow --rank=0 -- -7":   {Command: "logs", Names: []string{"-7"}, Follow: true, Rank: new(0)},
		"gorun logs -n 5 7f3a --stream stderr": {Command: "logs", Names: []string{"7f3a"}, Tail: new(5), Stream: 2},
		"gorun logs --tail=0 -f":               {Command: "logs", Tail: new(0), Follow: true},
		"gorun stacks --rank 1 7f3a":           {Command: "stacks", Names: []string{"7f3a"}, Rank: new(1)},
		"gorun stop a b c":                     {Command: "stop", Names: []string{"a", "b", "c"}},
		"gorun stop a --signal INT b":          {Command: "stop", Names: []string{"a", "b"}, Signal: syscall.SIGINT},
		"gorun stop --signal sighup a":         {Command: "stop", Names: []string{"a"}, Signal: syscall.SIGHUP},
		"gorun stop --signal KILL a": {
			Command: "stop", Names: []string{"a"}, Signal: syscall.SIGTERM, Grace: new(time.Duration),
		},
		"gorun stop --all --grace 1.5": {Command: "stop", All: true, Grace: new(1500 * time.Millisecond)},
		"gorun stop --grace 0 --signal=TERM a": {
			Command: "stop", Names: []string{"a"}, Signal: syscall.SIGTERM, Grace: new(time.Duration),
		},
	} {
		t.Run(line, func(t *testing.T) {
			got := *mustBe[*jobsRequest](t, line)
			got.call, got.act = nil, nil
			assert.Equal(t, want, got)
		})
	}
	require.True(t, mustBe[*jobsRequest](t, "gorun ps --json").JSON)
	require.True(t, mustBe[*jobsRequest](t, "gorun ps -h 7f3a").IsHelp())
}

func TestJobCommandProblems(t *testing.T) {
	for line, want := range map[string]string{
		"gorun ps a b":             "b: one job at a time; gorun ./ps starts a program of that name",
		"gorun ps --rank 1":        "unknown option --rank",
		"gorun logs --stream both": "not one of stdout, stderr",
		"gorun logs -n -1":         "-1",
		"gorun stop":               "no job given: gorun stop JOB..., or --all; gorun ps lists them",
		"gorun stop --all a":       "--all and a contradict each other",
		"gorun stop a --grace -1":  "--grace -1: a time cannot be negative",
		"gorun stop --signal USR1": "--signal USR1: not one of TERM, INT, HUP, KILL; kill -SIGNAL PID of a job's gorun " +
			"passes others on to its ranks",
		"gorun stop --signal x a": "--signal x: not one of TERM, INT, HUP, KILL",
		"gorun logs --rank -1":    "--rank -1: not a number from 0 on",
		"gorun logs --rank":       "--rank needs a value: --rank N",
	} {
		_, err := parsed[*jobsRequest](line)
		require.Error(t, err, line)
		assert.True(t, strings.Contains(err.Error(), want), "%s: %v", line, err)
	}
	_, err := read([]string{"stop", ""}, aroundOf())
	assert.ErrorContains(t, err, "the name of a job is empty: an unset variable?")
}
