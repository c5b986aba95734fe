package dialect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// TestJoin: the node that each command line describes.
func TestJoin(t *testing.T) {
	for line, want := range map[string]job.JoinSpec{
		"torchrun --nnodes 2 --node-rank 1 --master-addr a --master-port 5 x.py": {
			NodeRank: 1, NumNodes: 2, Addr: "a", Port: 5, Insecure: true,
			From: "--nnodes 2 --node-rank 1 --master-addr a --master-port 5",
		},
		"gorun --nnodes=2 --node_rank=0 --master_addr=[fd00::1] x": {
			NodeRank: 0, NumNodes: 2, Addr: "fd00::1", Port: 29500, From: "--nnodes=2 --node_rank=0 --master_addr=[fd00::1]",
		},
		"torchrun --nnodes 4 --nproc-per-node 8 --max-restarts 3 --rdzv-id 7 --rdzv-backend c10d --rdzv-endpoint " +
			"n1.site x.py": {
			NodeRank: -1, NumNodes: 4, Addr: "n1.site", Port: 29400, ID: "7", Insecure: true,
			From: "--nnodes 4 --rdzv-endpoint n1.site",
		},
		"torchrun --nnodes 4:4 --rdzv-backend static --rdzv-endpoint n1:7 --node-rank 3 x.py": {
			NodeRank: 3, NumNodes: 4, Addr: "n1", Port: 7, Insecure: true,
			From: "--nnodes 4:4 --node-rank 3 --rdzv-endpoint n1:7",
		},
		"gorun --nnodes 2 --rdzv-endpoint n1 x": {
			NodeRank: -1, NumNodes: 2, Addr: "n1", Port: 29500, From: "--nnodes 2 --rdzv-endpoint n1",
		},
		"gorun --nnodes 2 --rdzv-endpoint fe80::0 x": {
			NodeRank: -1, NumNodes: 2, Addr: "fe80::0", Port: 29500, From: "--nnodes 2 --rdzv-endpoint fe80::0",
		},
		"gorun --nnodes 2 --rdzv-endpoint n1:1 --local-addr 10.0.0.2 x": {
			NodeRank: -1, NumNodes: 2, Addr: "n1", Port: 1, Host: "10.0.0.2", From: "--nnodes 2 --rdzv-endpoint n1:1",
		},
		"gorun --nnodes 2 --rdzv-endpoint n1:1 --rdzv-conf timeout=9 x": {
			NodeRank: -1, NumNodes: 2, Addr: "n1", Port: 1, Timeout: 9 * time.Second, From: "--nnodes 2 --rdzv-endpoint n1:1",
		},
		"gorun --nnodes 2 --rdzv-endpoint n1:1 --rdzv-backend c10d --rdzv-conf " +
			"timeout=9,join_timeout=600,read_timeout=60,is_host=1 x": {
			NodeRank: 0, NumNodes: 2, Addr: "n1", Port: 1, Timeout: 10 * time.Minute, From: "--nnodes 2 --rdzv-endpoint n1:1",
		},
		"gorun --nnodes 2 --node-rank 1 --rdzv-endpoint n1:1 --rdzv-conf is_host=0 x": {
			NodeRank: 1, NumNodes: 2, Addr: "n1", Port: 1, From: "--nnodes 2 --node-rank 1 --rdzv-endpoint n1:1",
		},
		"torchrun --nnodes 2 --rdzv-endpoint n1:1 --rdzv-backend c10d --rdzv-conf is_host=false x.py": {
			NodeRank: -1, NeverNode0: true, NumNodes: 2, Addr: "n1", Port: 1, Insecure: true,
			From: "--nnodes 2 --rdzv-endpoint n1:1",
		},
		"torchrun --nnodes 2 --rdzv-endpoint n1:1 --rdzv-backend c10d --node-rank 0 --rdzv-conf is_host=n x.py": {
			NodeRank: -1, NeverNode0: true, NumNodes: 2, Addr: "n1", Port: 1, Insecure: true,
			From: "--nnodes 2 --rdzv-endpoint n1:1",
		},
		"torchrun --nnodes 2 --rdzv-endpoint n1:1 --rdzv-backend c10d --node-rank 1 " +
			"--rdzv-conf='join_timeout=9,is_host=True' x.py": {
			NodeRank: 0, NumNodes: 2, Addr: "n1", Port: 1, Timeout: 9 * time.Second, Insecure: true,
			From: "--nnodes 2 --rdzv-endpoint n1:1",
		},
		"gorun --nnodes 2 --node-rank 1 --master-addr a --rdzv-conf is_host=y x": {
			NodeRank: 1, NumNodes: 2, Addr: "a", Port: 29500, From: "--nnodes 2 --node-rank 1 --master-addr a",
		},
		"gorun --nnodes 2 --master-addr a --token-file token x": {
			NodeRank: -1, NumNodes: 2, Addr: "a", Port: 29500, Token: fileToken, From: "--nnodes 2 --master-addr a",
		},
		"gorun --nnodes 2 --master-addr a --token-file pod x": {
			NodeRank: -1, NumNodes: 2, Addr: "a", Port: 29500, Token: fileToken, From: "--nnodes 2 --master-addr a",
		},
	} {
		t.Run(line, func(t *testing.T) {
			inv := mustParse(t, line)
			require.Equal(t, &want, inv.Spec.Join)
			require.Equal(t, job.StoreSpec{}, inv.Spec.Store, "the place is the join's")
			require.Equal(t, want.NumNodes, inv.Spec.NumNodes)
			require.Equal(t, want.ID, inv.Spec.RunID)
			require.Empty(t, inv.Notes)
		})
	}
	require.Nil(t, mustParse(t, "gorun --nnodes 1 --node-rank 0 --master-addr a x").Spec.Join)
	require.Nil(t, mustParse(t, "gorun --nnodes 2 -H a,b --master-addr a x").Spec.Join, "gorun starts the others")
}

// Variables of torchrun, manifests and Kubernetes replace options.
func TestJoinFromVariables(t *testing.T) {
	j := mustParse(t, "torchrun x.py", "PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=a",
		"PET_MASTER_PORT=5").Spec.Join
	require.Equal(t, &job.JoinSpec{
		NodeRank: 1, NumNodes: 2, Addr: "a", Port: 5, Insecure: true,
		From: "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=a PET_MASTER_PORT=5",
	}, j)

	j = mustParse(t, "gorun --nnodes 4 --master-addr a x", "JOB_COMPLETION_INDEX=3").Spec.Join
	require.Equal(t, 3, j.NodeRank)
	require.Equal(t, "--nnodes 4 JOB_COMPLETION_INDEX=3 --master-addr a", j.From)
	require.Equal(t, 1, mustParse(t, "gorun --nnodes 4 --node-rank 1 --master-addr a x",
		"JOB_COMPLETION_INDEX=3").Spec.Join.NodeRank)
	require.Equal(t, []string{"JOB_COMPLETION_INDEX=x: not a number from 0 on; say by --node-rank which node this is"},
		problems(t, "gorun --nnodes 4 --master-addr a x", "JOB_COMPLETION_INDEX=x"))
	require.Nil(t, mustParse(t, "gorun x", "JOB_COMPLETION_INDEX=x").Spec.Join, "one node asks nobody")

	j = mustParse(t, "gorun --nnodes 2 x", "MASTER_ADDR=a", "MASTER_PORT=7", "GORUN_TOKEN="+otherToken).Spec.Join
	require.Equal(t, &job.JoinSpec{
		NodeRank: -1, NumNodes: 2, Addr: "a", Port: 7, Token: otherToken,
		From: "--nnodes 2 MASTER_ADDR=a MASTER_PORT=7",
	}, j)
	require.Equal(t, fileToken, mustParse(t, "gorun --nnodes 2 --master-addr a --token-file token x",
		"GORUN_TOKEN="+otherToken).Spec.Join.Token, "an option is stronger")
	require.Len(t, problems(t, "gorun --nnodes 2 x", "MASTER_ADDR=a", "TORCHELASTIC_RUN_ID=outer"), 1,
		"an outer launcher's address is ignored")
	require.Equal(t, []string{"MASTER_PORT=x: not a port from 0 to 65535"},
		problems(t, "gorun --nnodes 2 x", "MASTER_ADDR=a", "MASTER_PORT=x"))
}

func TestJoinProblems(t *testing.T) {
	const where = "--nnodes 2: where do the nodes meet? Add --master-addr ADDR and --master-port PORT, or " +
		"--rdzv-endpoint ADDR:PORT, the same for each of them and an address of node 0; or name the hosts by -H, and " +
		"gorun " +
		"starts the other nodes"
	for line, want := range map[string][]string{
		"gorun --nnodes 2 x":                       {where},
		"torchrun --nnodes 2 --master-port 5 x.py": {where},
		"gorun --nnodes 1:2 x":                     {"--nnodes 1:2" + where[len("--nnodes 2"):]},
		"gorun --nnodes 1:2 --spares 1 --master-addr a x": {"--spares 1: a job can do without nodes only if gorun starts " +
			"them or they join: add -H or --hostfile, or leave it out"},
		"gorun --nnodes 2 --node-rank 2 --master-addr a x": {"--node-rank 2: the last of 2 nodes (--nnodes 2) is " +
			"node 1"},
		"gorun --nnodes 2 --master-addr a --master-port 0 x": {"--master-addr a --master-port 0: port 0 picks a " +
			"random port, which the other nodes do not know: give a fixed one"},
		"gorun --nnodes 2 --rdzv-endpoint a:0 x": {"--rdzv-endpoint a:0: port 0 picks a random port, which the other " +
			"nodes do not know: give a fixed one"},
		"gorun --nnodes 2 --rdzv-endpoint [::1]:0 x": {"--rdzv-endpoint [::1]:0: port 0 picks a random port, which " +
			"the other nodes do not know: give a fixed one"},
		"gorun --nnodes 2 --standalone x": {"--standalone is one node, and --nnodes 2 are 2: " +
			"keep one of them"},
		"gorun --nnodes 2 --master-addr a -n 4 x": {"-n 4 is for a gorun that starts all nodes; of 2 " +
			"nodes that are started one by one each says how many ranks it has: use --nproc-per-node 2"},
		"gorun --nnodes 2 --master-addr a -n 3 --nproc-per-node 2 x": {"-n 3 and --nproc-per-node 2 with --nnodes 2 both " +
			"give the number of ranks: keep one"},
		"gorun --nnodes 2 --master-addr a -n 1 x : -n 1 y": {"several programs do not go with nodes that join " +
			"each other: name the hosts by -H, and gorun starts the other nodes"},
		"gorun --rdzv-conf timeout x": {"--rdzv-conf timeout: \"timeout\" is not key=value"},
		"gorun --rdzv-conf timeout=0 x": {"--rdzv-conf timeout=0: timeout: not a time from 1s " +
			"to 720h0m0s"},
		"gorun --rdzv-conf is_host=maybe x": {"--rdzv-conf is_host=maybe: is_host: a switch is 1 " +
			"or 0, true or false"},
		"gorun --nnodes 2 --master-addr a --token-file open x": {"--token-file open: others can read or write this " +
			"secret (mode 0644): chmod 600 open"},
		"gorun --nnodes 2 --master-addr a --token-file shared x": {"--token-file shared: others can read or write " +
			"this secret (mode 0660): chmod 600 shared"},
		"gorun --nnodes 2 --master-addr a --token-file group x": {"--token-file group: others can read or write this " +
			"secret (mode 0640): chmod 600 group"},
		"gorun --nnodes 2 --master-addr a --token-file theirs x": {"--token-file theirs: it belongs to uid 8, which " +
			"knows this secret: create your own with gorun token --out FILE"},
		"gorun --nnodes 2 --master-addr a --token-file pipe x": {"--token-file pipe: not a regular file; use " +
			"GORUN_TOKEN=\"$(cat pipe)\" in its place"},
		"gorun --nnodes 2 --master-addr a --token-file none x": {"--token-file none: file does not exist"},
		"gorun --nnodes 2 --master-addr a --token-file empty x": {"--token-file empty: the token is empty: create " +
			"one by gorun token"},
		"gorun --nnodes 2 --master-addr a --token-file long x": {"--token-file long: not a token: it must begin " +
			"with gorun1_; create one by gorun token"},
		"gorun --token-file= x": {"--token-file=: the value is empty"},
	} {
		t.Run(line, func(t *testing.T) { require.Equal(t, want, problems(t, line)) })
	}
	spec := mustParse(t, "gorun --nnodes 2 --master-addr a -n 4 --nproc-per-node 2 x").Spec
	require.Equal(t, 0, spec.Apps[0].NumRanks, "both say the same")
	require.Equal(t, 2, spec.PerNode.N)
	require.Len(t, mustParse(t, "gorun --token-file token x").Notes, 1)
	require.Len(t, mustParse(t, "gorun --insecure-join x").Notes, 1)
	require.Empty(t, mustParse(t, "gorun x", "GORUN_INSECURE_JOIN=1").Notes)
	require.Empty(t, mustParse(t, "gorun x", "GORUN_TOKEN_FILE=token").Notes)
}

// TestJoinSecret: the strongest secret authenticates the nodes.
func TestJoinSecret(t *testing.T) {
	const line, home, file = " --nnodes 2 --master-addr a x", "HOME=/home/me", "GORUN_TOKEN_FILE=token"
	for name, row := range map[string]struct {
		line      string
		variables []string
		want      job.JoinSpec
	}{
		"nothing":   {"gorun" + line, nil, job.JoinSpec{}},
		"no file":   {"gorun" + line, []string{"HOME=/home/other"}, job.JoinSpec{}},
		"no home":   {"gorun" + line, []string{"HOME=me", "XDG_CONFIG_HOME=conf"}, job.JoinSpec{}},
		"your own":  {"gorun" + line, []string{home}, job.JoinSpec{OwnToken: otherToken}},
		"elsewhere": {"gorun" + line, []string{home, "XDG_CONFIG_HOME=/conf"}, job.JoinSpec{OwnToken: fileToken}},
		"variable":  {"gorun" + line, []string{home, "GORUN_TOKEN=" + fileToken}, job.JoinSpec{Token: fileToken}},
		"file": {
			"gorun" + line, []string{home, "GORUN_TOKEN=" + otherToken, file}, job.JoinSpec{Token: fileToken},
		},
		"insecure":            {"gorun --insecure-join" + line, nil, job.JoinSpec{Insecure: true}},
		"insecure off":        {"gorun --insecure-join=0" + line, []string{"GORUN_INSECURE_JOIN=1"}, job.JoinSpec{}},
		"insecure variable":   {"gorun" + line, []string{"GORUN_INSECURE_JOIN=1"}, job.JoinSpec{Insecure: true}},
		"torchrun":            {"torchrun" + line, nil, job.JoinSpec{Insecure: true}},
		"launch":              {"gorun launch" + line, nil, job.JoinSpec{Insecure: true}},
		"torchrun, your own":  {"torchrun" + line, []string{home}, job.JoinSpec{OwnToken: otherToken, Insecure: true}},
		"torchrun, localhost": {"torchrun --nnodes 2 --rdzv-endpoint localhost:1 x", nil, job.JoinSpec{}},
		"torchrun, 127.0.0.2": {"torchrun --nnodes 2 --rdzv-endpoint 127.0.0.2:1 x", nil, job.JoinSpec{}},
		"torchrun, ::1":       {"torchrun --nnodes 2 --rdzv-endpoint [::1]:1 x", nil, job.JoinSpec{}},
		"mpirun":              {"mpirun --nnodes 2 --master-addr a x", nil, job.JoinSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			j := mustParse(t, row.line, row.variables...).Spec.Join
			require.Equal(t, row.want, job.JoinSpec{Token: j.Token, OwnToken: j.OwnToken, Insecure: j.Insecure})
		})
	}
	require.Equal(t,
		[]string{"/open/gorun/token: others can read or write this secret (mode 0640): chmod 600 /open/gorun/token"},
		problems(t, "gorun"+line, "XDG_CONFIG_HOME=/open"))
}
