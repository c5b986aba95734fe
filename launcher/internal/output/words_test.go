package output

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
)

func TestStreamMap(t *testing.T) {
	m := StreamMap{3, 0, 1}
	for local, want := range []spec.Streams{3, 0, 1, 0} {
		assert.Equal(t, want, m.Of(local), local)
	}
	assert.False(t, m.Empty())
	assert.True(t, StreamMap{}.Empty())
	assert.True(t, StreamMap{0, 0}.Empty())
	assert.True(t, spec.Streams(2).Has(Stderr))
	assert.False(t, spec.Streams(2).Has(Stdout))
	assert.False(t, spec.Streams(3).Has(0))
}

func TestTemplate(t *testing.T) {
	r := RankInfo{Rank: 11, LocalRank: 3, Role: "trainer", Host: "node7.cluster.example"}
	for in, want := range map[string]string{
		"":                                   "",
		"[${role_name}-${rank}]: ":           "[trainer-11]: ",
		"$local_rank/$rank@${hostname}":      "3/11@node7",
		"costs $$5, $ 3, ${, $} ${rank $1":   "costs $5, $ 3, ${, $} ${rank $1",
		"$rank.$local_rank:":                 "11.3:",
		"plain":                              "plain",
		"$$rank":                             "$rank",
		"\x1b[1m${rank}\x1b[0m":              "\x1b[1m11\x1b[0m",
		"${rank}${rank}":                     "1111",
		"trailing $":                         "trailing $",
		"é${rank}":                           "é11",
		"${local_rank}_":                     "3_",
		"$$${rank}$$":                        "$11$",
		"${role_name}${hostname}${rank}\tx ": "trainernode711\tx ",
	} {
		template, err := ParseTemplate(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, template.expand(r, Stdout, 1, time.Time{}), in)
		assert.Equal(t, in == "", template.Empty())
	}
	_, err := ParseTemplate("a ${node} b")
	require.EqualError(t, err,
		`--log-line-prefix-template "a ${node} b": unknown name "${node}"; use ${role_name}, ${local_rank}, ${rank} `+
			`or ${hostname}`)
	_, err = ParseTemplate("$rank_")
	require.ErrorContains(t, err, `unknown name "$rank_"`)
}

func TestTemplateHosts(t *testing.T) {
	template, err := ParseTemplate("$hostname")
	require.NoError(t, err)
	for host, want := range map[string]string{
		"node": "node", "node.a.b": "node", "10.0.0.7": "10.0.0.7", "fe80::1.2.3.4": "fe80::1.2.3.4",
		"evil\x1b[2J.x": "evil^[[2J",
	} {
		assert.Equal(t, want, template.expand(RankInfo{Host: host}, Stdout, 1, time.Time{}))
	}
}

func TestTags(t *testing.T) {
	template, err := ParseTemplate("${rank}: ")
	require.NoError(t, err)
	r := RankInfo{Rank: 3, LocalRank: 1, Role: "default", Tee: 1}
	plain := tagger{several: true, digits: 3}
	for _, tt := range []struct {
		name   string
		change func(*tagger)
		stdout string // stdout is teed
		stderr string // stderr is not
	}{
		{"a pipe", func(*tagger) {}, "[default1]:", ""},
		{"a terminal", func(t *tagger) { t.terminal = true }, "[default1]:", "[  3]!"},
		{"a terminal, one rank", func(t *tagger) { t.terminal, t.several = true, false }, "[default1]:", ""},
		{"never", func(t *tagger) { t.Label, t.terminal = LabelNever, true }, "", ""},
		{"always", func(t *tagger) { t.Label = LabelAlways }, "[default1]:", "[3] "},
		{"a template", func(t *tagger) { t.Template, t.Label = template, LabelAlways }, "3: ", "[3] "},
		{"Open MPI's", func(t *tagger) {
			t.Label, t.Pattern, t.Now = LabelAlways, mustPattern("[1,%r]<%s>:"), time.Now
		}, "[1,3]<stdout>:", "[1,3]<stderr>:"},
		{
			"colours", func(t *tagger) { t.terminal, t.color = true, true },
			"[default1]:", "\x1b[0;35m[  3]\x1b[0;31m!\x1b[0m",
		},
	} {
		tagger := plain
		tt.change(&tagger)
		assert.Equal(t, tt.stdout, string(tagger.tag(r, Stdout)), tt.name)
		assert.Equal(t, tt.stderr, string(tagger.tag(r, Stderr)), tt.name)
	}
	colours := tagger{several: true, digits: 3, terminal: true, color: true}
	assert.Equal(t, "\x1b[0;35m[  3] \x1b[0m", string(colours.tag(RankInfo{Rank: 3}, Stdout)))
}

func FuzzTemplate(f *testing.F) {
	f.Add("${rank} $$ $local_rank ${")
	f.Fuzz(func(t *testing.T, s string) {
		template, err := ParseTemplate(s)
		if err != nil {
			return
		}
		text := template.expand(RankInfo{Rank: 1, LocalRank: 2, Host: "h", Role: "r"}, Stdout, 1, time.Time{})
		if !strings.Contains(s, "$") {
			assert.Equal(t, s, text)
		}
	})
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "█▉": 2, "日本": 4, "e\u0301": 1, "\x1b[31mred\x1b[0m": 3, "\x1b]0;title\atext": 4,
		"\x1b]0;title\x1b\\text": 4,
		"\x1b[":                  0, "\x1b": 0, "\x1b(B1": 2, "ab\bc": 2, "🚀": 2, "\xff": 1, "a\tb": 2,
	} {
		assert.Equal(t, want, columns([]byte(text)), "%q", text)
	}
	for _, tt := range []struct {
		text string
		room int
		want string
	}{
		{"abc", 5, "abc"},
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"日本", 3, "日"},
		{"\x1b[1mabc", 1, "\x1b[1ma"},
		{"abc", 0, ""},
	} {
		assert.Equal(t, tt.want, string(cut([]byte(tt.text), tt.room)), "%q in %d", tt.text, tt.room)
	}
}
