package launcher_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/internal/ras/rastest"
	"gorun/launcher/job"
	"gorun/rendezvous/tcpstore"
)

// speakLikeNCCL prints this rank's lines of a recorded log, then does what its arguments select. Rank 1 fails when
// all ranks have printed.
func speakLikeNCCL(r env.Rank) {
	log, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	mine := fmt.Sprintf("%d ", r.Rank)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text()+" ", mine); ok {
			fmt.Println(strings.TrimSuffix(text, " "))
		}
	}
	if len(os.Args) < 3 {
		return
	}
	store, err := tcpstore.Dial(context.Background(), r.Store)
	if err == nil {
		err = store.Set(context.Background(), fmt.Sprint("printed ", r.Rank), nil)
	}
	for rank := range r.WorldSize {
		if err == nil {
			err = store.Wait(context.Background(), fmt.Sprint("printed ", rank))
		}
	}
	if err != nil {
		panic(err)
	}
	if r.Rank == 1 {
		os.Exit(3)
	}
	select {}
}

// speaking returns a job whose ranks print a recorded NCCL log.
func speaking(s launcher.Spec, log string, args ...string) launcher.Spec {
	s.Apps[0].Args = append([]string{"internal/nccllog/testdata/" + log}, args...)
	return s
}

// notices collects notices about NCCL. A minus prefix marks details.
type notices struct {
	mu   sync.Mutex
	list []string
}

func (n *notices) option() option {
	return withNotices(func(notice launcher.Notice) string {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !strings.Contains(notice.Text, "CCL") {
			return ""
		}
		if notice.Detail {
			notice.Text = "- " + notice.Text
		}
		n.list = append(n.list, notice.Text)
		return ""
	})
}

func TestNCCLSummaries(t *testing.T) {
	for _, tc := range []struct {
		log   string
		ranks int
		want  []string
	}{
		{"nvlink.log", 4, []string{"- NCCL 2.30.7 over NVLink P2P with NVLS, 24 channels [0-3]×4"}},
		{
			"infiniband.log", 4,
			[]string{"- NCCL 2.30.7 over P2P and InfiniBand (mlx5_[0-1], GPUDirect RDMA), 16 channels [0-3]×4"},
		},
		{"rccl.log", 2, []string{"- RCCL 2.22.3 over P2P, 56 channels [0-1]×2"}},
		{"alone.log", 2, []string{"- NCCL 2.30.7 (add -x NCCL_DEBUG=INFO to see over what)"}},
	} {
		t.Run(tc.log, func(t *testing.T) {
			var said notices
			r, stdout, _ := run(t, speaking(specOf("nccl", tc.ranks), tc.log), said.option())
			require.Zero(t, r.ExitCode)
			require.Len(t, said.list, 1)
			assert.Equal(t, tc.want, said.list)
			log, err := os.ReadFile("internal/nccllog/testdata/" + tc.log)
			require.NoError(t, err)
			assert.Equal(t, strings.Count(string(log), "\n"), strings.Count(stdout.String(), "\n"), "every line is shown")
			require.NotNil(t, r.NCCL)
			assert.Len(t, r.NCCL.Summaries, 1)
		})
	}
}

func TestMixedVersions(t *testing.T) {
	var said notices
	r, _, _ := run(t, speaking(specOf("nccl", 2), "versions.log"), said.option())
	require.Zero(t, r.ExitCode)
	assert.Contains(t, said.list,
		"ranks have different versions of NCCL, which do not work together: NCCL 2.26.2 in [1]×1, NCCL 2.30.7 in [0]×1; "+
			"check LD_LIBRARY_PATH and the Python environment on each host")
}

func TestNCCLWarningsInReport(t *testing.T) {
	r, _, _ := run(t, speaking(specOf("nccl", 2), "sockets.log", "fail"))
	require.Equal(t, 3, r.ExitCode)
	report := launcher.Explain(r)
	assert.Regexp(t,
		`(?m)^  nccl     \[0-1\]×2 │ NCCL WARN socketProgress: Connection closed by remote peer n2<4[01]123>$`, report)
	assert.Equal(t, 1, strings.Count(report, "Call to connect returned"),
		"what its last lines contain is not repeated")
}

func TestNCCLQueryOnHang(t *testing.T) {
	answer, err := os.ReadFile("internal/ras/testdata/behind.json")
	require.NoError(t, err)
	server := rastest.Server{JSON: string(answer)}
	s := specOf("wait", 4)
	s.HangTimeout = 20 * time.Millisecond
	s.Exports = append(s.Exports, job.Export{Name: "NCCL_RAS_ADDR", Value: server.Start(t), HasValue: true})
	r, _, _ := run(t, s)
	assert.Equal(t, job.ExitTimeout, r.ExitCode)
	require.NotNil(t, r.Hang)
	assert.Equal(t, []string{"rank 3 (pid 29778 on 127.0.0.1) is behind: 41 AllReduce, the others 42"}, r.Hang.NCCL)
	assert.Contains(t, launcher.Explain(r),
		"\n  NCCL: rank 3 (pid 29778 on 127.0.0.1) is behind: 41 AllReduce, the others 42\nexit 124\n")
	assert.Equal(t, int32(4), server.Asked.Load(), "twice: whether anything goes on, before the end and for the report")
}

func TestNCCLQueryOnHangOfNodes(t *testing.T) {
	answer, err := os.ReadFile("internal/ras/testdata/stopped.json")
	require.NoError(t, err)
	server := rastest.Server{JSON: string(answer)}
	s := nodes("wait")
	s.HangTimeout, s.Grace = time.Second, time.Second
	s.Exports = append(s.Exports, job.Export{Name: "NCCL_RAS_ADDR", Value: server.Start(t), HasValue: true})
	r, _, _ := run(t, s, agents(t, nil))
	require.NotNil(t, r.Hang)
	assert.Equal(t,
		[]string{
			"1 of 4 ranks does not answer: [2]",
			"rank 3 (pid 29778 on 127.0.0.1) is behind: 41 AllReduce, the others 42",
		}, r.Hang.NCCL)
}

// No RAS query goes to an NCCL whose RAS is disabled.
func TestNCCLWithoutRAS(t *testing.T) {
	server := rastest.Server{JSON: "{}"}
	s := specOf("wait", 1)
	s.HangTimeout = 20 * time.Millisecond
	s.Exports = append(s.Exports, job.Export{Name: "NCCL_RAS_ADDR", Value: server.Start(t), HasValue: true},
		job.Export{Name: "NCCL_RAS_ENABLE", Value: "0", HasValue: true})
	r, _, _ := run(t, s)
	require.NotNil(t, r.Hang)
	assert.Empty(t, r.Hang.NCCL)
	assert.Zero(t, server.Asked.Load())
}
