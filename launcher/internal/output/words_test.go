package output

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStreams(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []Streams // of local ranks 0, 1, 2, 10
	}{
		{"", []Streams{0, 0, 0, 0}},
		{"0", []Streams{0, 0, 0, 0}},
		{"3", []Streams{3, 3, 3, 3}},
		{"0:3,1:1", []Streams{3, 1, 0, 0}},
		{"10:2", []Streams{0, 0, 0, 2}},
		{"1:1,1:2", []Streams{0, 2, 0, 0}},
	} {
		m, err := ParseStreams(tt.in)
		require.NoError(t, err, tt.in)
		for i, local := range []int{0, 1, 2, 10} {
			assert.Equal(t, tt.want[i], m.Of(local), "%q of %d", tt.in, local)
		}
	}
	for _, in := range []string{"4", "-1", "out", "0:4", "0:", ":1", "0:1,", "a:1", "-1:3", "+1:3", "0:1;1:2", "00:1:2", "33"} {
		_, err := ParseStreams(in)
		assert.ErrorContains(t, err, fmt.Sprintf("streams %q", in))
	}
	_, err := ParseStreams("0:3,1:5")
	assert.EqualError(t, err, `streams "0:3,1:5": "1:5" is no pair LOCAL_RANK:VALUE with a value of 0, 1 (stdout), 2 (stderr) or 3 (both)`)
}

func TestStreamMapEmpty(t *testing.T) {
	for in, want := range map[string]bool{"": true, "0": true, "0:0,4:0": true, "2": false, "0:0,4:1": false} {
		m, err := ParseStreams(in)
		require.NoError(t, err)
		assert.Equal(t, want, m.Empty(), in)
	}
	assert.True(t, Streams(2).Has(Stderr))
	assert.False(t, Streams(2).Has(Stdout))
	assert.False(t, Streams(3).Has(0))
}

func TestParseRanksFilter(t *testing.T) {
	for in, want := range map[string][]int{"": nil, "0": {0}, "5,0,2,5": {0, 2, 5}, "0, 12": {0, 12}} {
		got, err := ParseRanksFilter(in)
		require.NoError(t, err)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{",", "1,", "a", "-1", "0-3"} {
		_, err := ParseRanksFilter(in)
		assert.ErrorContains(t, err, fmt.Sprintf("local ranks filter %q", in))
	}
}

func TestParseLineFilters(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "apple,orange": {"apple", "orange"}, "a,,b,c": {"a,b", "c"}, ",,": {","}, ",": {"", ""}, ",,,a": {",", "a"}, "a, b": {"a", " b"},
	} {
		assert.Equal(t, want, ParseLineFilters(in), in)
	}
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
		assert.Equal(t, want, template.expand(r), in)
		assert.Equal(t, in == "", template.Empty())
	}
	_, err := ParseTemplate("a ${node} b")
	require.EqualError(t, err, `log line prefix template "a ${node} b": unknown name "${node}"; known are ${role_name}, ${local_rank}, ${rank} and ${hostname}`)
	_, err = ParseTemplate("$rank_")
	require.ErrorContains(t, err, `unknown name "$rank_"`)
}

func TestTemplateHosts(t *testing.T) {
	template, err := ParseTemplate("$hostname")
	require.NoError(t, err)
	for host, want := range map[string]string{
		"node": "node", "node.a.b": "node", "10.0.0.7": "10.0.0.7", "fe80::1.2.3.4": "fe80::1.2.3.4", "evil\x1b[2J.x": "evil^[[2J",
	} {
		assert.Equal(t, want, template.expand(RankInfo{Host: host}))
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
		stdout string // which is tee'd
		stderr string // which is not
	}{
		{"a pipe", func(*tagger) {}, "[default1]:", ""},
		{"a terminal", func(t *tagger) { t.terminal = true }, "[default1]:", "[  3]!"},
		{"a terminal, one rank", func(t *tagger) { t.terminal, t.several = true, false }, "[default1]:", ""},
		{"never", func(t *tagger) { t.label, t.terminal = LabelNever, true }, "", ""},
		{"always", func(t *tagger) { t.label = LabelAlways }, "[default1]:", "[3] "},
		{"a template", func(t *tagger) { t.template, t.label = template, LabelAlways }, "3: ", "[3] "},
		{"a template for all", func(t *tagger) { t.template, t.label, t.style = template, LabelAlways, TemplateTag }, "3: ", "3: "},
		{"Open MPI's", func(t *tagger) { t.label, t.style = LabelAlways, OpenMPITag }, "[1,3]<stdout>:", "[1,3]<stderr>:"},
		{"torchrun's", func(t *tagger) { t.label, t.style = LabelAlways, TorchrunTag }, "[default1]:", "[default1]:"},
		{"gorun's", func(t *tagger) { t.label, t.style = LabelAlways, RankTag }, "[3] ", "[3] "},
		{
			"colours", func(t *tagger) { t.style, t.terminal, t.color = RankTag, true, true },
			"\x1b[0;35m[  3] \x1b[0m", "\x1b[0;35m[  3]\x1b[0;31m!\x1b[0m",
		},
	} {
		tagger := plain
		tt.change(&tagger)
		assert.Equal(t, tt.stdout, string(tagger.tag(r, Stdout)), tt.name)
		assert.Equal(t, tt.stderr, string(tagger.tag(r, Stderr)), tt.name)
	}
}

func TestFold(t *testing.T) {
	for want, ranks := range map[string][]int{
		"[]": nil, "[3]": {3}, "[0-1]": {1, 0}, "[0-2,4,6-7]": {7, 6, 4, 2, 1, 0, 0},
	} {
		assert.Equal(t, want, Fold(ranks))
	}
	var most []int
	for rank := range 512 {
		if rank != 137 {
			most = append(most, rank)
		}
	}
	assert.Equal(t, "[0-136,138-511]", Fold(most))
	given := []int{2, 1}
	Fold(given)
	assert.Equal(t, []int{2, 1}, given, "the argument is left as it is")
}

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain text, grün 日本":   "plain text, grün 日本",
		"tab\tstays":            "tab\tstays",
		"\x1b[31mred\x1b]0;t\a": "^[[31mred^[]0;t^G",
		"a\nb\r\x00\x7f":        "a^Jb^M^@^?",
		"\xff\xc3(":             `\xff\xc3(`,
		"\u009b2J\u202eevil":    `\u009b2J\u202eevil`,
		"\u2028\u2066":          `\u2028\u2066`,
		"\ufffd":                "\ufffd",
	} {
		assert.Equal(t, want, Sanitize(in))
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("\x1b[2J\x9b\u009b\r\n\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		safe := Sanitize(s)
		for _, r := range safe {
			require.False(t, unicode.IsControl(r) && r != '\t', "%q keeps %q", safe, r)
		}
		assert.Equal(t, safe, Sanitize(safe), "a second time changes nothing")
		assert.NotContains(t, plain([]byte(s)), "\x1b")
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("${rank} $$ $local_rank ${")
	f.Fuzz(func(t *testing.T, s string) {
		template, err := ParseTemplate(s)
		if err != nil {
			return
		}
		text := template.expand(RankInfo{Rank: 1, LocalRank: 2, Host: "h", Role: "r"})
		if !strings.Contains(s, "$") {
			assert.Equal(t, s, text)
		}
	})
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "█▉": 2, "日本": 4, "e\u0301": 1, "\x1b[31mred\x1b[0m": 3, "\x1b]0;title\atext": 4, "\x1b]0;title\x1b\\text": 4,
		"\x1b[": 0, "\x1b": 0, "\x1b(B1": 2, "ab\bc": 2, "🚀": 2, "\xff": 1, "a\tb": 2,
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
