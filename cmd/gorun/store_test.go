package main

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/rendezvous/tcpstore"
)

func TestStoreConfig(t *testing.T) {
	o, err := parsed[*storeOptions]("gorun store --listen [::1]:7 --allow-from 10.0.0.0/8 --allow-local-users " +
		"--max-key-size 1 --max-value-size 2 --max-keys-per-request 3 --max-memory 4 --max-connections 5")
	require.NoError(t, err)
	got := o.config(nil)
	require.True(t, got.Allow(netip.MustParseAddr("10.1.1.1")))
	require.False(t, got.Allow(netip.MustParseAddr("11.1.1.1")))
	got.Allow = nil
	require.Equal(t, tcpstore.Config{
		Host: "::1", Port: 7, AllowLocalUsers: true, AllowOption: "--allow-from",
		AllowLocalUsersOption: "--allow-local-users",
		Limits:                tcpstore.Limits{Key: 1, Value: 2, Keys: 3, Memory: 4, Connections: 5},
	}, got)
	o, err = parsed[*storeOptions]("gorun store")
	require.NoError(t, err)
	require.Nil(t, o.config(nil).Allow)
}

func TestStoreEnded(t *testing.T) {
	require.Equal(t, 0, signalExitCode(syscall.SIGTERM))
	require.Equal(t, 130, signalExitCode(syscall.SIGINT))
	require.Equal(t, 129, signalExitCode(syscall.SIGHUP))
}

// storeServer holds the values of gorun store's options.
type storeServer struct {
	Host            string
	Port            int
	Allow           []netip.Prefix
	AllowLocalUsers bool
	tcpstore.Limits
}

func serverOf(o *storeOptions) storeServer {
	return storeServer{o.host, o.port, o.Spec.Store.Allow, o.Spec.Store.AllowLocalUsers, o.limit}
}

func networks(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func TestStoreServer(t *testing.T) {
	for line, want := range map[string]storeServer{
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
			Limits: tcpstore.Limits{Key: 1 << 10, Value: 2 << 20, Memory: 3 << 30, Keys: 4, Connections: 5},
		},
		"gorun store --": {},
	} {
		t.Run(line, func(t *testing.T) {
			require.Equal(t, want, serverOf(mustBe[*storeOptions](t, line)))
		})
	}
	got := mustBe[*storeOptions](t, "gorun store", "GORUN_LISTEN=:7", "GORUN_ALLOW_FROM=10.0.0.0/8, ::1")
	require.Equal(t, storeServer{Host: "::", Port: 7, Allow: networks("10.0.0.0/8", "::1/128")}, serverOf(got))
	require.Equal(t, []string{"GORUN_LISTN: no option has this variable; did you mean GORUN_LISTEN?"},
		mustBe[*storeOptions](t, "gorun store", "GORUN_LISTN=3").Notes)
	job, err := dialect.Parse("gorun", []string{"x"}, aroundOf("GORUN_LISTEN=here"))
	require.NoError(t, err)
	require.Empty(t, job.Notes, "the variable is another command's")
	_, err = parseWords([]string{"store", ""}, aroundOf())
	require.EqualError(t, err, "'': gorun store takes no arguments; gorun ./store starts a program of that name")
}

func TestStoreServerProblems(t *testing.T) {
	const form = "; write HOST:PORT, such as 127.0.0.1:29500, [::1]:29500 or :29500"
	const size = "not a size; write 1000000 (bytes), 64K, 1.5M or 4G"
	requireProblems(t, map[string][]string{
		"gorun store --listen node1:1": {"--listen node1:1: node1 is no IP address without a zone; names are not " +
			"looked up"},
		"gorun store --listen fe80::1%eth0": {"--listen fe80::1%eth0: fe80::1%eth0 is no IP address without a zone; " +
			"names are not looked up"},
		"gorun store --listen 127.0.0.1:x": {"--listen 127.0.0.1:x: not a port from 0 to 65535" + form},
		"gorun store --listen :65536":      {"--listen :65536: not a port from 0 to 65535"},
		"gorun store --listen 65536": {"--listen 65536: 65536 is no IP address without a zone; names are not " +
			"looked up"},
		"gorun store --listen [::1":             {"--listen [::1: missing ]" + form},
		"gorun store --listen=":                 {"--listen=: not an address or a name of a host" + form},
		"gorun store --max-key-size 0":          {"--max-key-size 0: " + size},
		"gorun store --max-value-size 2G":       {"--max-value-size 2G: more than 2G - 1 bytes"},
		"gorun store --max-memory 99999999999G": {"--max-memory 99999999999G: " + size},
		"gorun store --max-connections 0":       {"--max-connections 0: not a number from 1 on"},
		"gorun store --allow-from 10.0.0.0/33 x": {
			"--allow-from 10.0.0.0/33: not a network such as 10.0.0.0/8 or fd00::/8, nor an IP address",
			"x: gorun store takes no arguments; gorun ./store starts a program of that name",
		},
		"gorun store -n 2":      {"unknown option -n: gorun has it, gorun store does not; call gorun for it"},
		"gorun store --grace 2": {"unknown option --grace: gorun has it, gorun store does not; call gorun for it"},
	})
}
