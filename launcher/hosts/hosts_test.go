package hosts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseList(t *testing.T) {
	for list, want := range map[string][]Host{
		"a":                       {{Name: "a"}},
		"a,b":                     {{Name: "a"}, {Name: "b"}},
		"a:4,b:2":                 {{Name: "a", Slots: 4}, {Name: "b", Slots: 2}},
		"a,a,b":                   {{Name: "a", Slots: 2}, {Name: "b"}},
		"a,a:2":                   {{Name: "a", Slots: 3}},
		"a:2,b,a:3":               {{Name: "a", Slots: 5}, {Name: "b"}},
		"a:2,b,[::1]:3":           {{Name: "a", Slots: 2}, {Name: "b"}, {Name: "::1", Slots: 3}},
		"::1":                     {{Name: "::1"}},
		"[::1]":                   {{Name: "::1"}},
		"fe80::1%eth0,10.0.0.1:2": {{Name: "fe80::1%eth0"}, {Name: "10.0.0.1", Slots: 2}},
		"a:*,b:22:*":              {{Name: "a", CoreSlots: true}, {Name: "b", Port: 22, CoreSlots: true}},
		"a:2,a:*":                 {{Name: "a", CoreSlots: true}},
		"a,u@a,a:22:1,u@a:22:1":   {{Name: "a", Slots: 4, User: "u", Port: 22}},
		"alice@a:2":               {{Name: "a", Slots: 2, User: "alice"}},
		"a, b:2":                  {{Name: "a"}, {Name: "b", Slots: 2}},
		"a:2222:4":                {{Name: "a", Port: 2222, Slots: 4}},
		"a:2222":                  {{Name: "a", Slots: 2222}},
		"u@a:22:1,[::1]:22:2":     {{Name: "a", User: "u", Port: 22, Slots: 1}, {Name: "::1", Port: 22, Slots: 2}},
		"[fe80::1%eth0]:4":        {{Name: "fe80::1%eth0", Slots: 4}},
		"dead:22:4":               {{Name: "dead", Port: 22, Slots: 4}},
		"n[08-10,3]:2": {
			{Name: "n08", Slots: 2}, {Name: "n09", Slots: 2}, {Name: "n10", Slots: 2}, {Name: "n3", Slots: 2},
		},
		"u@r[1-2]n[3-4]-ib": {
			{Name: "r1n3-ib", User: "u"},
			{Name: "r1n4-ib", User: "u"},
			{Name: "r2n3-ib", User: "u"},
			{Name: "r2n4-ib", User: "u"},
		},
		"n[1-2]:22:3":          {{Name: "n1", Port: 22, Slots: 3}, {Name: "n2", Port: 22, Slots: 3}},
		"n[1-2],n[2]":          {{Name: "n1"}, {Name: "n2", Slots: 2}},
		"[1-2]":                {{Name: "1"}, {Name: "2"}},
		`DOM\bob@gpu-1_x.site`: {{Name: "gpu-1_x.site", User: `DOM\bob`}},
	} {
		t.Run(list, func(t *testing.T) {
			got, err := ParseList(list, "-H "+list)
			require.NoError(t, err)
			for i := range want {
				want[i].From = "-H " + list
			}
			require.Equal(t, want, got)
		})
	}
}

func TestParseListMistakes(t *testing.T) {
	for list, want := range map[string][]string{
		"":                           {"a host's name is empty"},
		"a,,b":                       {"a host's name is empty"},
		"a:x":                        {`"a:x": the number of slots is "x"`},
		"a:0":                        {`the number of slots is "0"`},
		"a:-1":                       {`the number of slots is "-1"`},
		"a:+1":                       {`the number of slots is "+1"`},
		"a:**":                       {`the number of slots is "**"`},
		"a:9999999":                  {"not a number from 1 to 1048576"},
		"a:":                         {`the number of slots is ""`},
		"a:1:2:3":                    {"a name is followed by :SLOTS or :PORT:SLOTS"},
		"a:0:2":                      {`"0" is not a port`},
		"a:70000:2":                  {`"70000" is not a port`},
		"n[1-3:2]":                   {"[1-3:2] is neither a number nor a range", "steps and letters are not supported"},
		"n[]":                        {"[] is neither a number nor a range"},
		"n[1,]":                      {"[] is neither a number nor a range"},
		"n[a-b]":                     {"[a-b] is neither a number nor a range"},
		"n[[1]]":                     {"[[1] is neither a number nor a range"},
		"n[3-1]":                     {"[3-1] ends before it starts: write [1-3]"},
		"n[1":                        {`"n[1": missing ]`},
		"n1]":                        {"] without ["},
		"n[1-2]$":                    {`it contains '$'`},
		"[a::z]:2":                   {"[a::z] is neither an IPv6 address nor a range"},
		"n[1-999999999]":             {"[1-999999999] is more than 65536 hosts"},
		"n[1-65537]":                 {"more than 65536 hosts"},
		"n[1-300]m[1-300]":           {"more than 65536 hosts"},
		"n[1-65536],x":               {`"x": more than 65536 hosts`},
		"n[0-999999999999999999999]": {"is neither a number nor a range"},
		"[::1":                       {"missing ]"},
		"[::1]4":                     {"an address in brackets is followed by :SLOTS, :PORT:SLOTS or nothing"},
		"-oProxy=x":                  {`"-oProxy=x" is not a host name: it begins with a dash`},
		"-o@a":                       {`"-o" is not a user name`},
		"@a":                         {`"" is not a user name`},
		"a b":                        {`it contains ' '`},
		"a;rm":                       {`it contains ';'`},
		"$(x)":                       {`it contains '$'`},
		"+n0":                        {"relative and excluded hosts"},
		"a:x,b:y,good":               {`"a:x"`, `"b:y"`},
		"a:2201:1,b,a,a:2202:1":      {"a:2201 and a:2202 are one host with two logins"},
		"u@a,a:22:1,v@a":             {"u@a:22 and v@a are one host with two logins"},
	} {
		t.Run(list, func(t *testing.T) {
			_, err := ParseList(list, "-H "+list)
			require.Error(t, err)
			for _, text := range want {
				require.ErrorContains(t, err, text)
			}
			for line := range strings.Lines(err.Error()) {
				require.True(t, strings.HasPrefix(line, "-H "+list+": "), line)
			}
		})
	}
}

const hostFile = `# a cluster
node1
node2 slots=4 max-slots=8 # eight at most

node3:2
alice@node4 port=2222 count=1
node5 cpu=3 slots_max=6
node2 slots=2
bob@node6 username=carol
[::1]:3
`

func TestParseFile(t *testing.T) {
	got, err := ParseFile("hosts.txt", hostFile)
	require.NoError(t, err)
	require.Empty(t, got.Notes)
	require.Equal(t, []Host{
		{Name: "node1", From: "hosts.txt:2"},
		{Name: "node2", Slots: 6, From: "hosts.txt:3"},
		{Name: "node3", Slots: 2, From: "hosts.txt:5"},
		{Name: "node4", Slots: 1, User: "alice", Port: 2222, From: "hosts.txt:6"},
		{Name: "node5", Slots: 3, MaxSlots: 6, From: "hosts.txt:7"},
		{Name: "node6", User: "carol", From: "hosts.txt:9"},
		{Name: "::1", Slots: 3, From: "hosts.txt:10"},
	}, got.Hosts)
	require.Equal(t, "Open MPI and MPICH", got.Dialect)
}

// TestDialects shows one file of each, and its description.
func TestDialects(t *testing.T) {
	for text, want := range map[string]File{
		"a\nb # fast\n": {
			Dialect: "plain names", Hosts: []Host{{Name: "a", From: "h:1"}, {Name: "b", From: "h:2"}},
		},
		"worker-1 slots=4\nworker-2 slots=4": {
			Dialect: "Open MPI or DeepSpeed", Hosts: []Host{
				{Name: "worker-1", Slots: 4, From: "h:1"},
				{Name: "worker-2", Slots: 4, From: "h:2"},
			},
		},
		"a slots=2 max_slots=4": {
			Dialect: "Open MPI", Hosts: []Host{{Name: "a", Slots: 2, MaxSlots: 4, From: "h:1"}},
		},
		"a max_slots=4\nb slots-max=2 slots = 1": {
			Dialect: "Open MPI", Hosts: []Host{
				{Name: "a", Slots: 4, MaxSlots: 4, From: "h:1"},
				{Name: "b", Slots: 1, MaxSlots: 2, From: "h:2"},
			},
		},
		"a slots =4 max-slots= 8": {
			Dialect: "Open MPI", Hosts: []Host{{Name: "a", Slots: 4, MaxSlots: 8, From: "h:1"}},
		},
		"u@a port=22": {
			Dialect: "Open MPI", Hosts: []Host{{Name: "a", User: "u", Port: 22, From: "h:1"}},
		},
		"a:4 ifhn=a-ib\nb:2 ifhn=[fd00::2]": {
			Dialect: "MPICH", Hosts: []Host{
				{Name: "a", Slots: 4, Address: "a-ib", From: "h:1"},
				{Name: "b", Slots: 2, Address: "fd00::2", From: "h:2"},
			},
		},
		"a user=bob": {Dialect: "MPICH", Hosts: []Host{{Name: "a", User: "bob", From: "h:1"}}},
		"n[1-2] slots=3 max-slots=4\n[::1]:22:1\n": {
			Dialect: "Open MPI and MPICH", Hosts: []Host{
				{Name: "n1", Slots: 3, MaxSlots: 4, From: "h:1"},
				{Name: "n2", Slots: 3, MaxSlots: 4, From: "h:1"},
				{Name: "::1", Port: 22, Slots: 1, From: "h:2"},
			},
		},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseFile("h", text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestParseFileSumsRepeatedLines(t *testing.T) {
	got, err := ParseFile("h", "a\na\r\na\n")
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "a", Slots: 3, From: "h:1"}}, got.Hosts)

	got, err = ParseFile("h", "a slots=1 max-slots=2\na slots=1 max-slots=3")
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "a", Slots: 2, MaxSlots: 5, From: "h:1"}}, got.Hosts)
}

func TestParseFileNotes(t *testing.T) {
	got, err := ParseFile("h", "a:2 binding=user:0+1 weight=3\n")
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "a", Slots: 2, From: "h:1"}}, got.Hosts)
	require.Equal(t, []string{
		"h:1: binding=user:0+1 has no meaning in a host file", "h:1: weight=3 has no meaning in a host file",
	}, got.Notes)
}

func TestParseFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "h names no host",
		"# nothing\n\n":                "h names no host",
		"a\nb slots=x\n":               `h:2: slots=x: the number of slots is "x"`,
		"a slots=2 cpu=3":              "h:1: cpu=3: the number of slots is given twice",
		"a:2 slots=2":                  "the number of slots is given twice",
		"a slots=4 max-slots=2":        "slots=4 is more than max-slots=2",
		"a slots = x":                  `slots=x: the number of slots is "x"`,
		"a slots =":                    `slots=: the number of slots is ""`,
		"a b":                          `"b": after a host come key=value pairs`,
		"a port=0":                     `"0" is not a port`,
		"a port=x":                     `"x" is not a port`,
		"a user=-o":                    `"-o" is not a user name`,
		"-l root":                      "it begins with a dash",
		"^a":                           "relative and excluded hosts",
		"a slots=x\nok\nb max-slots=y": "h:3: max-slots=y",
		"a:22:4 port=22":               "h:1: port=22: the port is given twice",
		"n[1-2] ifhn=x":                "h:1: ifhn=x is one host's, and n[1-2] names 2: write a line for each",
		"a ifhn=x:1":                   `"x:1" is neither an address nor a name`,
		"a ifhn=-x":                    "it begins with a dash",
		"a:22:4\na\na port=23":         "h:3: a:22 and a:23 are one host with two logins",
		"n[1-65536]\nm":                `h:2: "m": more than 65536 hosts`,
		"+n0":                          "relative and excluded hosts",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseFile("h", text)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestIsLoopback(t *testing.T) {
	for _, name := range []string{"localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "::1"} {
		require.True(t, Host{Name: name}.IsLoopback(), name)
	}
	for _, name := range []string{"127.example.org", "node1", "::2", "10.0.0.1", "localhost.evil.org"} {
		require.False(t, Host{Name: name}.IsLoopback(), name)
	}
}

func TestTotalSlots(t *testing.T) {
	require.Equal(t, 0, TotalSlots(nil))
	require.Equal(t, 5, TotalSlots([]Host{{Slots: 2}, {Slots: 3}}))
	require.Equal(t, 0, TotalSlots([]Host{{Slots: 2}, {}}), "one number is open, so the sum is")
}

func TestSum(t *testing.T) {
	got := Sum([]Host{{Name: "localhost", Slots: 2, From: "x"}, {Name: "::1"}})
	require.Equal(t, Host{Name: "localhost", Slots: 3, From: "x"}, got)
	require.Equal(t, Host{Name: "a"}, Sum([]Host{{Name: "a"}}), "one host stays as it is")
}

func TestSelect(t *testing.T) {
	all := []Host{{Name: "a", Slots: 4, User: "u"}, {Name: "b"}}
	got, err := Select(all, []Host{{Name: "b", From: "-H"}, {Name: "a", Slots: 2, From: "-H"}})
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "b", From: "-H"}, {Name: "a", Slots: 2, User: "u", From: "-H"}}, got)

	got, err = Select(all, []Host{{Name: "a", User: "v", Port: 22, From: "-H"}})
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "a", Slots: 4, User: "v", Port: 22, From: "-H"}}, got)

	got, err = Select(append(all, Host{Name: "c", CoreSlots: true}),
		[]Host{{Name: "a", CoreSlots: true}, {Name: "c", Slots: 2}})
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "a", User: "u", CoreSlots: true}, {Name: "c", Slots: 2}}, got)

	_, err = Select(all, []Host{{Name: "c1", From: "-H c[1-2]"}, {Name: "b"}, {Name: "c2", From: "-H c[1-2]"}})
	require.EqualError(t, err, "-H c[1-2]: the host file does not have c[1-2]")
}

func TestExclude(t *testing.T) {
	all := []Host{{Name: "a"}, {Name: "me", Here: true}, {Name: "b"}}
	isMe := func(name string) bool { return name == "10.0.0.1" }
	for name, want := range map[string]string{
		"a": "me,b", "me": "a,b", "localhost": "a,b", "10.0.0.1": "a,b",
		"none": "a,me,b",
	} {
		left, unknown := Exclude(all, []string{name}, isMe)
		require.Equal(t, want, strings.Join(Names(left), ","))
		require.Equal(t, name == "none", len(unknown) == 1)
	}
	_, unknown := Exclude(all[:1], []string{"localhost", "a"}, isMe)
	require.Equal(t, []string{"localhost"}, unknown, "this host is not in the list")
}
