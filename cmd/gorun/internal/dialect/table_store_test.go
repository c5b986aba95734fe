package dialect

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

func networks(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func TestStoreServer(t *testing.T) {
	for line, want := range map[string]StoreServer{
		"gorun store":                                                    {},
		"gorun store --listen 127.0.0.2:29500":                           {Host: "127.0.0.2", Port: 29500},
		"gorun store --listen=[::1]:1":                                   {Host: "::1", Port: 1},
		"gorun store --listen [::]:1":                                    {Host: "::", Port: 1},
		"gorun store --listen ::1":                                       {Host: "::1"},
		"gorun store --listen :1":                                        {Host: "::", Port: 1},
		"gorun store --listen 0.0.0.0:1":                                 {Host: "0.0.0.0", Port: 1},
		"gorun store --listen localhost:1":                               {Host: "localhost", Port: 1},
		"gorun store --listen 10.0.0.1":                                  {Host: "10.0.0.1"},
		"gorun store --listen 29500":                                     {Port: 29500},
		"gorun store --allow-local-users":                                {AllowLocalUsers: true},
		"gorun store --allow-from 10.1.0.0/8":                            {Allow: networks("10.0.0.0/8")},
		"gorun store --allow-from ::ffff:10.1.2.3":                       {Allow: networks("10.1.2.3/32")},
		"gorun store --allow-from ::ffff:10.0.0.0/104 --allow-from ::/0": {Allow: networks("10.0.0.0/8", "::/0")},
		"gorun store --max-key-size 1K --max-value-size=2MiB --max-memory 3gb --max-keys-per-request 4 --max-connections 5": {
			MaxKey: 1 << 10, MaxValue: 2 << 20, MaxMemory: 3 << 30, MaxKeys: 4, MaxConnections: 5,
		},
		"gorun store --": {},
	} {
		t.Run(line, func(t *testing.T) {
			got := mustParse(t, line)
			require.Equal(t, Invocation{Action: Serve, Dialect: Store, Store: want}, got)
		})
	}
	got, err := parse("gorun store", "GORUN_LISTEN=:7", "GORUN_ALLOW_FROM=10.0.0.0/8, ::1")
	require.NoError(t, err)
	require.Equal(t, StoreServer{Host: "::", Port: 7, Allow: networks("10.0.0.0/8", "::1/128")}, got.Store)
}

func TestStoreServerIsOnlyTheFirstWord(t *testing.T) {
	got := mustParse(t, "gorun -n 2 store --listen :1")
	require.Equal(t, Run, got.Action)
	require.Equal(t, job.App{Program: "store", Args: []string{"--listen", ":1"}, NumRanks: 2}, got.Spec.Apps[0])
}

func TestStoreServerProblems(t *testing.T) {
	const form = "; write HOST:PORT, such as 127.0.0.1:29500, [::1]:29500 or :29500"
	const size = "not a size; write 1000000 (bytes), 64K, 64M or 4G"
	for line, want := range map[string][]string{
		"gorun store --listen node1:1": {"--listen node1:1: node1 is no IP address without a zone; names are not " +
			"looked up"},
		"gorun store --listen fe80::1%eth0": {"--listen fe80::1%eth0: fe80::1%eth0 is no IP address without a zone; " +
			"names are not looked up"},
		"gorun store --listen 127.0.0.1:x": {"--listen 127.0.0.1:x: not a port from 0 to 65535" + form},
		"gorun store --listen :65536":      {"--listen :65536: not a port from 0 to 65535"},
		"gorun store --listen 65536": {"--listen 65536: 65536 is no IP address without a zone; names are not " +
			"looked up"},
		"gorun store --listen [::1":             {"--listen [::1: a bracket is not closed" + form},
		"gorun store --listen=":                 {"--listen=: not an address or a name of a host" + form},
		"gorun store --max-key-size 0":          {"--max-key-size 0: " + size},
		"gorun store --max-value-size 2G":       {"--max-value-size 2G: more than 2G - 1 bytes"},
		"gorun store --max-memory 99999999999G": {"--max-memory 99999999999G: " + size},
		"gorun store --max-connections 0":       {"--max-connections 0: not a number from 1 to 2147483647"},
		"gorun store --allow-from 10.0.0.0/33 x": {
			"--allow-from 10.0.0.0/33: not a network such as 10.0.0.0/8 or fd00::/8, nor an IP address",
			"x: gorun store takes no arguments; gorun ./store starts a program of that name",
		},
		"gorun store -n 2":      {"unknown option -n: gorun has it, gorun store does not; call gorun for it"},
		"gorun store --grace 2": {"unknown option --grace: gorun has it, gorun store does not; call gorun for it"},
	} {
		t.Run(line, func(t *testing.T) { require.Equal(t, want, problems(t, line)) })
	}
}
