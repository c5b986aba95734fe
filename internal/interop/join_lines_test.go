package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// tellScript is a script of a torchrun user. An argument makes its first attempt fail.
const tellScript = `
import os, sys, time
e = os.environ
if "--fail-once" in sys.argv and e["TORCHELASTIC_RESTART_COUNT"] == "0":
    if e["RANK"] == "3":
        sys.exit(5)
    time.sleep(60)  # it is ended
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_PORT ` +
	`TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT"
print(*[e[name] for name in names.split()], os.uname().nodename, *sys.argv[1:], flush=True)
`

// torchLine is a command line from torchrun's documentation, entered on two hosts.
type torchLine struct {
	name    string
	program string
	line    string // $NODE is the number of the host
	environ []string
	port    int
	id      string
	attempt int
	args    string
	says    string // on h1
}

// someID replaces a job id that gorun made; torchrun uses "none".
const someID = "ID"

var madeID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// The command lines from torchrun's documentation, with the command replaced by gorun.
var torchLines = []torchLine{
	{
		name: "static",
		line: "--nnodes=2 --nproc-per-node=2 --node-rank=$NODE --master-addr=h1 --master-port=1234 $SCRIPT --arg1 --arg2 2",
		port: 1234, id: someID, args: "--arg1 --arg2 2",
	},
	{
		name: "static with underscores",
		line: "--nnodes=2 --nproc_per_node=2 --node_rank=$NODE --rdzv-backend=static --rdzv_endpoint=h1:1234 $SCRIPT",
		port: 1234, id: someID,
	},
	{
		name: "c10d",
		line: "--nnodes=2 --nproc-per-node=2 --rdzv-id=100 --rdzv-backend=c10d --rdzv-endpoint=h1:29400 $SCRIPT",
		port: 29400, id: "100",
	},
	{
		name: "c10d by the name of torchrun", program: "torchrun", port: 29400, id: "job7",
		line: "--nnodes 2 --nproc-per-node 2 --rdzv-id job7 --rdzv-backend c10d --rdzv-endpoint h1 $SCRIPT",
	},
	{
		name: "restarts", line: "--nnodes=2 --nproc-per-node=2 --max-restarts=3 --rdzv-id=100 --rdzv-backend=c10d " +
			"--rdzv-endpoint=h1:29400 $SCRIPT --fail-once",
		port: 29400, id: "100", attempt: 1, args: "--fail-once", says: "rank 3",
	},
	{
		name: "variables", program: "torchrun", line: "$SCRIPT", port: 29511, id: someID,
		environ: strings.Fields(
			"PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=$NODE PET_MASTER_ADDR=10.77.1.1 PET_MASTER_PORT=29511"),
	},
	{
		name: "MASTER_ADDR of a manifest", line: "--nnodes 2 --nproc-per-node 2 $SCRIPT", port: 29512, id: someID,
		environ: strings.Fields("MASTER_ADDR=h1 MASTER_PORT=29512 JOB_COMPLETION_INDEX=$NODE"),
	},
}

func TestTorchrunLinesOfTwoHosts(t *testing.T) {
	t.Parallel()
	testneeds.Program(t, testneeds.LayerPython, "python3")
	a := rallyAt(t, 2)
	script := a.file(t, "script.py", tellScript)
	for _, c := range torchLines {
		program := c.program
		if program == "" {
			program = "gorun"
		}
		all := map[string]*running{}
		for node, host := range a.Hosts() {
			fill := strings.NewReplacer("$NODE", fmt.Sprint(node), "$SCRIPT", script)
			j := a.on(host, append([]string{built(program)}, strings.Fields(fill.Replace(c.line))...)...)
			if program == "gorun" { // torchrun's own command line needs no further options
				j = j.with(knownToken)
			}
			for _, v := range c.environ {
				j = j.with(fill.Replace(v))
			}
			all[host] = j.start(t)
		}
		came := results(t, all, 0)
		said := came["h1"].stdout
		if made := madeID.FindString(said); made != "" {
			said = strings.ReplaceAll(said, made, someID) // the same on all hosts
		}
		lines := strings.Split(strings.TrimSpace(said), "\n")
		slices.Sort(lines)
		var want []string
		for rank := range 4 {
			line := fmt.Sprintf("%d 4 %d 2 %d 2 %d %s %d h%d %s", rank, rank%2, rank/2, c.port, c.id, c.attempt, rank/2+1,
				c.args)
			want = append(want, strings.TrimSpace(line))
		}
		assert.Equal(t, want, lines[max(0, len(lines)-4):], "%s: %s", c.name, came["h1"].stderr)
		assert.Contains(t, came["h1"].stderr, c.says, c.name)
		for host, got := range came {
			assert.Equal(t, map[bool]int{true: 1}[program == "torchrun"], strings.Count(got.stderr, "without a token"),
				"%s: %s: %s", c.name, host, got.stderr)
		}
	}
}

// -x and --log-dir on a node apply to its own ranks.
func TestOwnCommandLinesOfJoinedHosts(t *testing.T) {
	t.Parallel()
	a := rallyAt(t, 2)
	file, _ := a.token(t, "token")
	both := func(options func(host string) []string) result {
		all := map[string]*running{}
		for _, host := range a.Hosts() {
			line := []string{
				built("gorun"), "--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "h1", "--token-file",
				file, "--tee", "3",
			}
			line = slices.Concat(line, options(host), []string{"sh", "-c", `echo $RANK $WORD $GORUN_WORD $PMIX_PREFIX`})
			all[host] = a.on(host, line...).with("GORUN_WORD=outer-"+host, "WORD=outer", "PMIX_PREFIX=/"+host).start(t)
		}
		return results(t, all, 0)["h1"]
	}
	logs := filepath.Join(a.Dir(), "logs")
	got := both(func(host string) []string {
		return []string{"-x", "WORD=inner-" + host, "-x", "GORUN_WORD", "--log-dir", logs}
	})
	assert.ElementsMatch(t, []string{"0 inner-h1 outer-h1 /h1", "1 inner-h2 outer-h2 /h2"},
		strings.Split(strings.TrimSpace(got.stdout), "\n"))
	both(func(host string) []string { return []string{"--log-dir", logs + host} })
	for rank, host := range a.Hosts() {
		text, err := os.ReadFile(filepath.Join(logs+host, strconv.Itoa(rank)+".out"))
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(text), strconv.Itoa(rank)+" "), "%s", text)
	}
}

// manifestLine is the command line of examples/kubernetes, without the parts that only a pod provides.
func manifestLine(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(example(t, "kubernetes/job.yaml"))
	require.NoError(t, err)
	_, args, found := strings.Cut(string(text), "args:\n")
	require.True(t, found)
	var line []string
	entry := regexp.MustCompile(`^ +- "?([^"\s]+)"?`)
	for text := range strings.Lines(args) {
		found := entry.FindStringSubmatch(text)
		if found == nil {
			break
		}
		line = append(line, found[1])
	}
	require.Contains(t, line, "./trainer")
	return line
}

// Pods of an indexed Job connect with the command line of the manifest.
func TestTheManifestsCommandLine(t *testing.T) {
	t.Parallel()
	a := rallyAt(t, 4)
	file, _ := a.token(t, "token")
	trainer := a.file(t, "trainer", "#!/bin/sh\necho $RANK of $WORLD_SIZE on $(hostname), node $GROUP_RANK\n")
	require.NoError(t, os.Chmod(trainer, 0o755))
	for index, host := range a.Hosts() { // as the headless service does
		names := filepath.Join(a.Dir(), host, "etc", "hosts")
		text, err := os.ReadFile(names)
		require.NoError(t, err)
		text = append(text, "\n10.77.1.3 trainer-0.trainer\n"...)
		require.NoError(t, os.WriteFile(names, text, 0o644), "%d", index)
	}
	fill := strings.NewReplacer("/etc/gorun/token", file, "./trainer", trainer)
	all := map[string]*running{}
	for at, host := range a.Hosts() {
		line := []string{built("gorun")}
		for _, word := range manifestLine(t) {
			line = append(line, fill.Replace(word))
		}
		index := (at + 2) % 4 // h3 is pod 0
		all[host] = a.on(host, line...).with(fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index)).start(t)
	}
	came := results(t, all, 0)
	lines := strings.Split(strings.TrimSpace(came["h3"].stdout), "\n")
	require.Len(t, lines, 32)
	for rank := range 32 {
		node := rank / 8
		assert.Contains(t, lines, fmt.Sprintf("%d of 32 on h%d, node %d", rank, (node+2)%4+1, node))
	}
}
