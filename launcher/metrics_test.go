package launcher_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher"
	"gorun/launcher/job"
)

// get returns the response to GET.
func get(t *testing.T, url string) string {
	addr, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET /%s HTTP/1.1\r\n\r\n", path)
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(text)
}

// measured starts a job with metrics, and returns where they are.
func measured(t *testing.T, s launcher.Spec, options ...option) (url string) {
	urls := make(chan string, 1)
	options = append(options, func(o *launcher.Options) { o.Metrics = "127.0.0.1:0" }, onNotice(func(text string) {
		if url, is := strings.CutPrefix(text, "metrics: "); is {
			urls <- url
		}
	}))
	list(t, s, options...)
	return <-urls
}

func TestMetrics(t *testing.T) {
	url := measured(t, onHosts(specOf("talk", 2), "node1", `no"de2`), agents(t, nil))
	var text string
	require.Eventually(t, func() bool {
		text = get(t, url)
		return strings.Count(text, fmt.Sprintf("} %d\n", printedByTalk(0))) == 4
	}, time.Minute, 10*time.Millisecond)
	assert.Contains(t, text, "200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n")
	assert.Contains(t, text, "# TYPE gorun_rank_cpu_seconds counter\n# UNIT gorun_rank_cpu_seconds seconds\n# HELP ")
	for _, line := range []string{
		`gorun_job_info\{id="\w+",version="[^"]+"\} 1`, `gorun_restarts_total 0`, `gorun_goodput_ratio (1|0\.\d+)`,
		`gorun_no_progress_seconds [\d.]+`, `gorun_rank_up\{rank="0",host="node1"\} 1`,
		`gorun_rank_cpu_seconds_total\{rank="3",host="no\\"de2"\} [\d.]+`,
		`gorun_rank_memory_bytes\{rank="3",host="no\\"de2"\} \d{6,}`, `gorun_node_up\{node="1",host="no\\"de2"\} 1`,
		`gorun_node_network_bytes_total\{node="0",host="node1"\} \d+`, `# EOF`,
	} {
		assert.Regexp(t, regexp.MustCompile(`(?m)^`+line+`$`), text)
	}
	assert.Contains(t, get(t, strings.TrimSuffix(url, "metrics")), "HTTP/1.1 404 Not Found\r\n")
	t.Run("reference parser", func(t *testing.T) {
		_, body, _ := strings.Cut(text, "\r\n\r\n")
		parser := exec.Command(testneeds.Torch(t), "-c", `import sys
from prometheus_client.openmetrics.parser import text_fd_to_metric_families
print(sum(len(family.samples) for family in text_fd_to_metric_families(sys.stdin)))`)
		parser.Stdin = strings.NewReader(body)
		out, err := parser.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, "24\n", string(out))
	})
}

// A restart counts, and the time of the attempt before is lost.
func TestMetricsOfRestarts(t *testing.T) {
	in, feed, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	s := specOf("again", 1)
	s.Restarts = job.Restarts{Max: 1, Delay: time.Millisecond}
	url := measured(t, s, withStdin(in))
	require.NoError(t, feed.Close())
	require.Eventually(t, func() bool {
		text := get(t, url)
		return strings.Contains(text, "\ngorun_restarts_total 1\n") && strings.Contains(text, "\ngorun_rank_up{rank=\"0\"") &&
			strings.Contains(text, "\ngorun_goodput_ratio 0")
	}, time.Minute, 10*time.Millisecond)
}
