package job

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
)

func TestParseChaos(t *testing.T) {
	list, err := ParseChaos("kill-agent@30s, cut-link:n2@60s±5s,stop-agent@1m+-5s,kill-rank:3@~10s")
	require.NoError(t, err)
	require.Equal(t, []Fault{
		{Text: "kill-agent@30s", Kind: "kill-agent", At: 30 * time.Second},
		{Text: "cut-link:n2@60s±5s", Kind: "cut-link", Target: "n2", At: time.Minute, Jitter: 5 * time.Second},
		{Text: "stop-agent@1m+-5s", Kind: "stop-agent", At: time.Minute, Jitter: 5 * time.Second},
		{Text: "kill-rank:3@~10s", Kind: "kill-rank", Target: "3", At: 10 * time.Second, Random: true},
	}, list)
	for text, want := range map[string]string{
		"":                             `fault 1, "": no time; write FAULT[:TARGET]@TIME, such as kill-rank:3@30s`,
		"kill-rank@1s,":                `fault 2, "": no time`,
		"kill-rank":                    `fault 1, "kill-rank": no time`,
		"kill-rank@1s,kil-agent@30s":   `fault 2, "kil-agent@30s": unknown fault "kil-agent"; there are kill-agent, stop-`,
		"kill-rank:n2@1s":              `no target "n2"; write a host, for kill-rank and stop-rank a rank's number`,
		"kill-agent:@1s":               `no target ""`,
		"stop-rank@30":                 `no time "30"; write 30s, 60s±5s (or 60s+-5s), or ~10s`,
		"stop-rank@-1s":                `no time "-1s"`,
		"stop-rank@~1s±1s":             `no time "1s±1s"`,
		"stop-rank@1s±":                `no time "1s±"`,
		"stop-rank@1s±-1s":             `no time "1s±-1s"`,
		"stop-rank@99999999999999999h": `no time "99999999999999999h"`,
	} {
		_, err := ParseChaos(text)
		require.ErrorContains(t, err, want)
	}
}

func TestMomentsOfFaults(t *testing.T) {
	exact, jitter := Fault{At: time.Minute}, Fault{At: time.Second, Jitter: 2 * time.Second}
	mean, sum, early := Fault{At: 10 * time.Second, Random: true}, time.Duration(0), 0
	random := rand.New(rand.NewPCG(7, 0)).Float64
	const draws = 10000
	for range draws {
		require.Equal(t, time.Minute, exact.Moment(random))
		at := jitter.Moment(random)
		require.LessOrEqual(t, at, 3*time.Second)
		require.GreaterOrEqual(t, at, time.Duration(0))
		if at == 0 {
			early++
		}
		sum += mean.Moment(random)
	}
	require.InDelta(t, 10, (sum / draws).Seconds(), 0.5)
	require.InDelta(t, draws/4, early, draws/20, "no fault is before the start")
}

func TestChaosOfSpec(t *testing.T) {
	for _, test := range []struct {
		chaos string
		hosts []string
		join  *JoinSpec
		want  string
	}{
		{"kill-rank:3@1s", nil, nil, ""},
		{"kill-agent@1s,cut-link:b@1s", []string{"a", "b"}, nil, ""},
		{"kill-agent:c@1s", []string{"a", "b"}, nil, "--chaos kill-agent:c@1s: no host c in -H a,b"},
		{"kill-agent@1s", nil, nil, "add -H or --hostfile"},
		{"kill-node@1s", nil, &JoinSpec{}, "add -H or --hostfile"},
	} {
		s := Spec{HostsFrom: "-H a,b", Join: test.join}
		for _, name := range test.hosts {
			s.Hosts = append(s.Hosts, hosts.Host{Name: name})
		}
		s.Chaos, _ = ParseChaos(test.chaos)
		if err := s.chaosError(); test.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, test.want)
		}
	}
	require.ErrorContains(t, (&Spec{ChaosSeed: 7}).chaosError(), "without --chaos")
}

func TestReportOfChaos(t *testing.T) {
	r := Result{Chaos: &Chaos{7, []Injection{
		{Fault: "kill-agent@30s", Target: "n2", At: Seconds(30 * time.Second), Recovery: Seconds(1200 * time.Millisecond)},
		{Fault: "kill-rank@~1m", Target: "rank 3 on n1", At: Seconds(time.Minute)},
		{Fault: "cut-link:n3@9m", At: Seconds(9 * time.Minute), Why: "the job had ended"},
	}}}
	require.Equal(t, `gorun: 3 faults (--chaos-seed 7)
  30s      kill-agent@30s: n2; ranks ran again after 1.2s
  1m       kill-rank@~1m: rank 3 on n1; no later attempt ran
  9m       cut-link:n3@9m: not injected: the job had ended
`, r.Report(nil, false))
	r.Chaos.Faults = make([]Injection, 20)
	require.Contains(t, r.Report(nil, false), "and 12 more: --report FILE has all\n")
}
